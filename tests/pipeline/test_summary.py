"""The table of a build: devices without regions, memory, and inexact outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from firmwright.ir.kernels import FloatOperator, Kernel, Kernels, Parameter, StoredWeights
from firmwright.ir.regions import Partition, Region, RuleViolation
from firmwright.ir.tensors import Tensor
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.summary import (
    describe_agreement,
    describe_devices,
    describe_fallbacks,
    describe_layers,
    describe_run,
    describe_weights,
)
from firmwright.planning import Plan
from firmwright.planning.schedule import Schedule, ScheduleStep
from firmwright.recipe.recipe import Tolerance
from firmwright.report.rows import WARNING, make_row
from firmwright.report.timeline import NO_TIME, Counted, TimedLayer, Timeline
from firmwright.verify.run_records import RunRecord


def region(number: int, device: str, macs: int) -> Region:
    return Region(
        name=f"region_{number}",
        device=device,
        reason="",
        anchor="conv2d",
        sources=(),
        operators=("conv2d",),
        inputs=(f"t{number}",),
        outputs=(f"t{number + 1}",),
        macs=macs,
        view=False,
        dequantized=(),
        refusals=(RuleViolation("strides", "they are 3", device="npu"),) if device == "c" else (),
    )


def make_job(
    folder: Path, devices: tuple[str, ...], target: tuple[str, ...], macs: int = 100
) -> Job:
    """Return the table's inputs for a job with regions on ``devices``, of ``macs`` and more."""
    regions = tuple(region(i, name, macs * (i + 1)) for i, name in enumerate(devices))
    tensors = tuple(Tensor(name=f"t{i}", shape=(1,), dtype="int8") for i in range(len(devices) + 1))
    partition = Partition(("t0",), (f"t{len(devices)}",), tensors, regions)
    artifacts.PARTITION.write(folder, partition)
    artifacts.KERNELS.write(folder, Kernels(()))
    schedule = Schedule(tuple(ScheduleStep(r.name, (), i) for i, r in enumerate(regions, 1)), ())
    artifacts.PLAN.write(folder, Plan(schedule, 0, 0, (), {}, ()))
    recipe = SimpleNamespace(target=[SimpleNamespace(name=n) for n in target], path=Path("r.yaml"))
    job = SimpleNamespace(recipe=recipe, folder=lambda _: folder, has_stage=lambda _: False)
    return cast(Job, cast(Any, job))


def test_a_device_that_got_nothing_stands_out(tmp_path: Path) -> None:
    job = make_job(tmp_path, ("c", "c"), ("npu", "c"))
    (shares,) = describe_devices(job)
    assert shares == make_row("MACs", ("0.0 % on npu", WARNING), ", ", "100.0 % on c")
    nothing, fallen = describe_fallbacks(job)
    message = "no operator runs on npu; `firmwright explain` lists all"
    assert nothing == make_row("fall-back", (message, WARNING))
    assert str(fallen) == (
        "2 operators on c, first conv2d 'region_0' (npu: strides: they are 3); `firmwright "
        "explain` lists all"
    )


def test_a_network_without_macs_is_shared_by_operators(tmp_path: Path) -> None:
    (shares,) = describe_devices(make_job(tmp_path, ("c",), ("npu", "c"), macs=0))
    assert (shares.label, str(shares)) == ("work", "0 operators on npu, 1 operator on c")


def test_what_runs_where_it_should_is_no_fallback(tmp_path: Path) -> None:
    job = make_job(tmp_path, ("npu", "npu"), ("npu", "c"))
    (shares,) = describe_devices(job)
    assert shares == make_row("MACs", "100.0 % on npu", ", ", "0.0 % on c")
    assert list(describe_fallbacks(job)) == []
    assert list(describe_fallbacks(make_job(tmp_path, ("c",), ("c",)))) == []


def test_the_three_largest_layers_come_first(tmp_path: Path) -> None:
    job = make_job(tmp_path, ("c",) * 4, ("c",))
    (layers,) = describe_layers(job)
    assert str(layers) == "4: region_3 40.0 %, 3: region_2 30.0 %, 2: region_1 20.0 % of the MACs"


RECORD = RunRecord(
    values=10,
    mismatches=0,
    differences=0,
    exact_samples=2,
    max_difference=0.0,
    emulator="unicorn",
    reference="the reference",
    samples=2,
    batch=1,
    macs=5,
    instructions=None,
    instructions_total=None,
    instructions_by_function={},
    instructions_by_region={},
    tolerance=Tolerance(3, 0),
)


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (RECORD, "2 of 2 samples exact, largest difference 0 (the reference)"),
        (
            replace(RECORD, exact_samples=0, differences=9, max_difference=2.5),
            "within the tolerance, largest difference 2.5; 0 of 2 samples exact (the reference)",
        ),
    ],
)
def test_outputs_within_the_tolerance_do_not_look_wrong(record: RunRecord, shown: str) -> None:
    assert str(describe_agreement(record)) == shown


def test_a_firmware_of_several_networks_that_is_not_built_says_why() -> None:
    job = cast(Job, cast(Any, SimpleNamespace(members=("one", "two"), not_built="no SDK")))
    (row,) = describe_run(job)
    assert (row.label, str(row)) == ("outputs", "no firmware was compiled or run: no SDK")


def test_a_platform_without_an_emulator_has_no_time() -> None:
    stated = SimpleNamespace(not_built="", has_stage=lambda _: False)
    _, row = describe_run(cast(Job, cast(Any, stated)))
    assert (row.label, str(row)) == ("time", NO_TIME)


def test_layers_in_float32_show_their_share_of_the_cycles(tmp_path: Path) -> None:
    job = make_job(tmp_path, ("c", "c"), ("c",))
    job.has_stage = lambda stage: stage == "stats"  # type: ignore[method-assign]
    mean = (FloatOperator("mean", "pool"),)
    kernels = (Kernel(f"region_{i}", (), (), (), (), "", (), 2, mean * i) for i in range(2))
    artifacts.KERNELS.write(tmp_path, Kernels(tuple(kernels)))
    ends = {"region_0": (0, 59), "region_1": (60, 79)}
    layers = tuple(
        TimedLayer(name, *when, "c", (), (), 0, None, Counted(0, 0)) for name, when in ends.items()
    )
    artifacts.TIMELINE.write(tmp_path, Timeline("cycles", "", 80, 0, 80, None, None, layers))
    (row,) = describe_fallbacks(job)
    message = "quantized operators that run in float32: 1 of 4, in layers of 25.0 % of the cycles"
    assert str(row) == message


def test_narrow_weights_show_their_bits_and_the_saved_bytes() -> None:
    kernels = [
        Kernel(f"region_{i}", (), (), (), (), "", (), 0, (), stored=stored)
        for i, stored in enumerate((StoredWeights(1000, 504), StoredWeights(600, 700), None))
    ]
    rows = [*describe_weights(Kernels(tuple(kernels)))]
    text = "1,000 of 4.032 bits in 504 bytes (int8: 496 more) in 1 layer; layers.csv lists each"
    assert rows == [make_row("weights", f"{text} layer")]
    assert not [*describe_weights(Kernels(tuple(kernels[1:])))]


def test_shared_weights_count_once() -> None:
    weights = (Parameter("weights", "uint8", 504, "shared"),)
    kernels = [
        Kernel(f"region_{i}", (), weights, (), (), "", (), 0, (), stored=StoredWeights(1000, 504))
        for i in range(2)
    ]
    (row,) = describe_weights(Kernels(tuple(kernels)))
    assert "1,000 of 4.032 bits in 504 bytes (int8: 496 more) in 2 layers" in str(row)
