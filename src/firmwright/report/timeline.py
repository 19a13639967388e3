"""Computes the clock cycles at which layers run (file ``stats/<name>_stats.yaml``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec
import yaml

from firmwright.errors import UserError
from firmwright.ir.kernels import Cycles, Kernels
from firmwright.ir.regions import Partition
from firmwright.planning.schedule import Schedule, Wait
from firmwright.verify.run_records import RunRecord

HEADER = """\
# Clock cycles of one inference of {name} on {platform}, layer by layer in order of execution.
# start_cycle and end_cycle are inclusive: a layer has end_cycle - start_cycle + 1 cycles.
# modelled: cycles of the cost model of the layer's device.
# counted: instructions that the CPU executed in the layer's function and in functions that it
#   calls, one cycle each; the mean of {runs} in {emulator}.
# The last entry is the run function itself: the instructions between its calls.
"""
PARALLEL_JOBS_HEADER = """\
# Layers on {devices} are jobs in parallel with the processor: start_cycle and end_cycle are the
#   job's, after the instructions that start it. Jobs overlap other work in {beside} cycles.
"""


@dataclass(frozen=True, slots=True)
class CountedCycles:
    """Instructions of the CPU, counted as one cycle each."""

    cpu: int


@dataclass(frozen=True, slots=True)
class LayerCycles:
    """The cycles in which a region runs; both ends are inclusive.

    For a region that only starts a job in parallel to the processor, they are the job's;
    ``counted`` comes before it. ``sources`` names its operators in the model, ``operators`` their
    kinds. ``modelled`` has the cycles of the device's cost model, None for a device without one,
    such as the CPU.
    """

    name: str
    start_cycle: int
    end_cycle: int
    device: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    macs: int
    modelled: Cycles | None
    counted: CountedCycles

    @property
    def cycles(self) -> int:
        return self.end_cycle - self.start_cycle + 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """The layers of one inference, in order of execution; the last entry is the run function.

    ``cycles`` is the sum of the ``modelled`` and ``counted`` cycles, minus the cycles in which
    devices run in parallel.
    """

    cycles: int
    modelled: int
    counted: int
    layers: tuple[LayerCycles, ...]


def make_timeline(
    schedule: Schedule,
    partition: Partition,
    kernels: Kernels,
    record: RunRecord,
    run_function: str,
) -> Timeline:
    """Return the timeline of one inference.

    Raises UserError for a run in which no instructions were counted.
    """
    if record.instructions_total is None:
        raise UserError(f"{record.emulator} counts no instructions")
    regions = {region.name: region for region in partition.regions}
    steps = [step for step in schedule.steps if not regions[step.region].view]
    executed = [record.instructions_by_region[step.region] for step in steps]
    executed.append(record.instructions_total - sum(executed))
    counted = compute_means(executed, record.samples)
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    clock = Clock()
    layers = []
    for step, instructions in zip(steps, counted, strict=False):
        region, kernel = regions[step.region], kernel_of[step.region]
        clock.wait(step.waits)
        heard = {function: name for name, function in kernel.events.items()}
        after = [Wait(heard[event.function], event.pending) for event in step.events]
        start, end = clock.run(instructions, kernel.cycles, kernel.wait_function, after)
        layers.append(
            LayerCycles(
                name=region.name,
                start_cycle=start,
                end_cycle=end - 1,
                device=region.device,
                sources=region.sources,
                operators=region.operators,
                macs=region.macs,
                modelled=kernel.cycles,
                counted=CountedCycles(instructions),
            )
        )
    clock.wait(schedule.last_waits)
    start, end = clock.run(counted[-1], None)
    last = LayerCycles(
        run_function, start, end - 1, "c", (), (), 0, None, CountedCycles(counted[-1])
    )
    modelled = sum(layer.modelled.total for layer in layers if layer.modelled)
    return Timeline(end, modelled, sum(counted), (*layers, last))


@dataclass
class Clock:
    """The processor's time, and the ends of parallel jobs, by the function that waits for them.

    A device begins a job when the processor has started it, and when the job before and the jobs of
    other devices that it waits for are done.
    """

    now: int = 0
    ends: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0]))

    def wait(self, waits: Iterable[Wait]) -> None:
        self.now = max([self.now, *map(self.find_end, waits)])

    def find_end(self, wait: Wait) -> int:
        """Return the time at which all jobs but the pending ones are done."""
        return self.ends[wait.function][-1 - wait.pending]

    def run(
        self,
        instructions: int,
        modelled: Cycles | None,
        beside: str | None = None,
        after: Iterable[Wait] = (),
    ) -> tuple[int, int]:
        """Run a layer; return when it, or its job, begins and ends.

        ``beside`` is the function that waits for its job, None for a layer on the processor. The
        job begins ``after`` jobs of other devices.
        """
        took = modelled.total if modelled else 0
        before, self.now = self.now, self.now + instructions
        if not beside:
            self.now += took
            return before, self.now
        start = max([self.now, self.ends[beside][-1], *map(self.find_end, after)])
        self.ends[beside].append(start + took)
        return start, start + took


def draw_tracks(found: Timeline, width: int = 64) -> list[str]:
    """Return one line of ``width`` columns per device: "#" if one of its layers runs, else "."."""
    devices = list(dict.fromkeys(layer.device for layer in found.layers))
    longest = max(map(len, devices))
    lines = []
    for device in devices:
        columns = ["."] * width
        for layer in found.layers:
            if layer.device == device and layer.cycles > 0:
                first, last = (
                    c * width // found.cycles for c in (layer.start_cycle, layer.end_cycle)
                )
                columns[first : last + 1] = "#" * (last + 1 - first)
        lines.append(f"{device:{longest}}  {''.join(columns)}")
    return lines


def compute_means(totals: Sequence[int], samples: int) -> list[int]:
    """Return the totals divided by the number of samples, rounded so that the means add up."""
    sums = (total // samples for total in accumulate(totals, initial=0))
    return [after - before for before, after in pairwise(sums)]


def write_timeline(path: Path, found: Timeline, header: str) -> None:
    """Write the layers as YAML, numbered from 1; ``header`` is the comment above them."""
    layers = msgspec.to_builtins(dict(enumerate(found.layers, 1)))
    text = yaml.dump(
        layers, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=96
    )
    path.write_text(header + text, encoding="utf-8", newline="\n")
