"""The timeline of an inference: contiguous, complete, and every part labelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from firmwright.errors import UserError
from firmwright.ir.kernels import Cycles, Kernel, Kernels
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.planning.schedule import schedule_regions
from firmwright.recipe.recipe import Tolerance
from firmwright.report.timeline import (
    Timeline,
    add_bound,
    draw_tracks,
    make_timeline,
    write_timeline,
)
from firmwright.toolchain import load_platform
from firmwright.verify.run_records import RunRecord

CLOCK = 64_000_000
MODELLED = Cycles(compute=700, transfer=200, stall=30)


def region(name: str, device: str = "c", view: bool = False, macs: int = 0) -> Region:
    return Region(
        name, device, "", name, (f"{name} in the model",), (name,), ("x",), (), macs, view, ()
    )


def kernel(name: str, cycles: Cycles | None = None) -> Kernel:
    return Kernel(name, (), (), (), (), "", (), 0, (), cycles=cycles)


PARTITION = Partition(
    (), (), (), (region("conv", "npu", macs=5), region("reshape", view=True), region("softmax"))
)
KERNELS = Kernels((kernel("conv", MODELLED), kernel("softmax")))
SCHEDULE = schedule_regions(PARTITION, KERNELS)


def counted(total: int | None, samples: int = 1, **by_region: int) -> RunRecord:
    return RunRecord(
        emulator="some emulator",
        reference="a reference",
        samples=samples,
        batch=1,
        macs=5,
        instructions=None if total is None else total // samples,
        instructions_total=total,
        instructions_by_function={},
        instructions_by_region=by_region,
        inputs=(),
        tolerance=Tolerance(0, 0),
        values=1,
        mismatches=0,
        differences=0,
        exact_samples=samples,
        max_difference=0.0,
    )


def found(record: RunRecord) -> Timeline:
    return make_timeline(SCHEDULE, PARTITION, KERNELS, record, "network_run", "by models", CLOCK)


def test_layers_follow_one_another_and_a_view_takes_no_time() -> None:
    layers = found(counted(100, conv=20, softmax=70)).layers
    assert [(x.name, x.start, x.end) for x in layers] == [
        ("conv", 0, 949), ("softmax", 950, 1019), ("network_run", 1020, 1029),
    ]  # fmt: skip
    assert (layers[0].modelled, layers[0].counted.instructions, layers[0].macs) == (MODELLED, 20, 5)
    assert (layers[1].modelled, layers[1].device) == (None, "c")


def test_means_of_several_runs_add_up() -> None:
    whole = found(counted(200, samples=3, conv=50, softmax=100))
    assert [x.counted.instructions for x in whole.layers] == [16, 34, 16]
    assert (whole.counted, whole.modelled, whole.total) == (66, 930, 996)
    assert sum(x.length for x in whole.layers) == whole.total


def test_the_file_is_a_mapping_of_layers_numbered_from_1(tmp_path: Path) -> None:
    path = tmp_path / "some_stats.yaml"
    write_timeline(path, found(counted(100, conv=20, softmax=70)), "# a header\n")
    text = path.read_text()
    assert text.startswith("# a header\n1:\n  name: conv\n  start_cycle: 0\n  end_cycle: 949\n")
    layers = yaml.safe_load(text)
    assert list(layers) == [1, 2, 3]
    assert layers[1]["modelled"] == {"compute": 700, "transfer": 200, "stall": 30}
    assert layers[1]["counted"] == {"instructions": 20, "cycles": None}
    assert layers[2]["sources"] == ["softmax in the model"]


def test_without_counted_instructions_there_is_no_timeline() -> None:
    with pytest.raises(UserError, match="some emulator counts no instructions"):
        found(counted(None))


def beside(events: dict[str, str]) -> Timeline:
    """Return two jobs of 40 and 10 cycles, the second of which reads the first's result."""
    names = ("first", "second")
    regions = (
        replace(region("first", "npu"), outputs=("a",)),
        replace(region("second", "dsp"), inputs=("a",), outputs=("b",)),
    )
    tensors = tuple(Tensor(name, (4,), "int8") for name in ("x", "a", "b"))
    partition = Partition(("x",), ("b",), tensors, regions)
    jobs: tuple[tuple[str, int, dict[str, str]], ...] = (
        ("npu_wait", 40, {}),
        ("dsp_wait", 10, events),
    )
    kernels = Kernels(
        tuple(
            replace(kernel(name, Cycles(cycles, 0, 0)), wait_function=wait, events=after)
            for name, (wait, cycles, after) in zip(names, jobs, strict=True)
        )
    )
    schedule = schedule_regions(partition, kernels)
    record = counted(30, first=10, second=10)
    return make_timeline(schedule, partition, kernels, record, "network_run", "by models")


@pytest.mark.parametrize(
    ("events", "second", "cycles"),
    [({}, (60, 69), 80), ({"npu_wait": "dsp_after_npu"}, (50, 59), 70)],
)
def test_a_job_begins_when_the_processor_or_the_other_job_lets_it(
    events: dict[str, str], second: tuple[int, int], cycles: int
) -> None:
    found = beside(events)
    first, last, _ = found.layers
    assert (first.start, first.end) == (10, 49)
    assert (last.start, last.end) == second
    assert found.total == cycles


def test_each_device_has_a_line_of_when_it_runs() -> None:
    assert draw_tracks(beside({}), 8) == [
        "npu  .####...",
        "dsp  ......#.",
        "c    .......#",
    ]


def tabled(total: int, cycles: int, **by_region: tuple[int, int]) -> RunRecord:
    """Return a run with instructions and cycles by region."""
    record = counted(total, **{name: each[0] for name, each in by_region.items()})
    of = {name: each[1] for name, each in by_region.items()}
    return replace(record, cycles_total=cycles, cycles_by_region=of)


def test_cycles_of_a_table_replace_instructions_and_give_milliseconds() -> None:
    timeline = found(tabled(100, 150, conv=(20, 30), softmax=(70, 100)))
    assert [(x.length, x.counted.instructions, x.counted.cycles) for x in timeline.layers] == [
        (960, 20, 30), (100, 70, 100), (20, 10, 20),
    ]  # fmt: skip
    assert (timeline.unit, timeline.counted, timeline.total) == ("cycles", 150, 1080)
    assert timeline.milliseconds == 0.017
    assert str(timeline) == "about 1,080 cycles, 0.017 ms at 64 MHz (by models)"


def test_the_energy_of_a_cycle_gives_microjoules() -> None:
    record = tabled(100, 150, conv=(20, 30), softmax=(70, 100))
    given = (SCHEDULE, PARTITION, KERNELS, record, "run", "by models", None, 50_000.0)
    timeline = make_timeline(*given)
    assert (timeline.total, timeline.microjoules) == (1080, 54.0)
    assert str(timeline) == "about 1,080 cycles, 54.0 µJ (by models)"


def test_instructions_are_never_called_cycles(tmp_path: Path) -> None:
    kernels = Kernels((kernel("conv"), kernel("softmax")))
    record = counted(100, conv=20, softmax=70)
    timeline = make_timeline(SCHEDULE, PARTITION, kernels, record, "run", "counted", CLOCK)
    assert (timeline.unit, timeline.milliseconds) == ("instructions", None)
    assert str(timeline) == "100 instructions (counted)"
    write_timeline(tmp_path / "s.yaml", timeline, "")
    first = yaml.safe_load((tmp_path / "s.yaml").read_text())[1]
    assert (first["start_instruction"], first["end_instruction"]) == (0, 19)


@pytest.mark.parametrize(("name", "least"), [("cortex-m7-bare", 51), ("cortex-m55-bare", 34)])
def test_cores_without_a_table_have_a_lower_bound(name: str, least: int) -> None:
    kernels = Kernels((kernel("conv"), kernel("softmax")))
    record = counted(101, conv=20, softmax=70)
    timeline = make_timeline(SCHEDULE, PARTITION, kernels, record, "run", "counted", CLOCK)
    bound = load_platform(name).cycle_bound
    assert add_bound(timeline, None) == timeline
    assert str(add_bound(timeline, bound)) == (
        f"101 instructions (counted), at least {least} cycles, 0.001 ms at 64 MHz (bound: {bound})"
    )


def test_a_table_of_cycles_needs_no_bound() -> None:
    assert load_platform("cortex-m4-bare").cycle_bound is None
    timeline = found(tabled(100, 150, conv=(20, 30), softmax=(70, 100)))
    assert add_bound(timeline, load_platform("cortex-m7-bare").cycle_bound) == timeline
