"""Computes when layers run, in cycles or instructions (file ``stats/<name>_stats.yaml``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firmwright.documents.quantities import (
    format_frequency,
    format_microjoules,
    format_milliseconds,
)
from firmwright.errors import UserError
from firmwright.ir.kernels import Cycles, Kernels
from firmwright.ir.regions import Partition
from firmwright.planning.schedule import Schedule, Wait
from firmwright.toolchain.cycle_tables import CycleBound
from firmwright.verify.run_records import RunRecord

NO_TIME = "unknown: only an emulator or a board counts instructions and cycles"
"""The time of a firmware that did not run."""

HEADER = """\
# The {unit} of one inference of {name} on {platform}, layer by layer in order of execution.
# In all: {time}.
# start_{one} and end_{one} are inclusive: a layer has end_{one} - start_{one} + 1 {unit}.
# modelled: cycles of the cost model of the layer's device.
# counted: {counted}
# The last entry is the run function itself: the {unit} between its calls.
"""
COUNTED = """\
the instructions that the CPU executed in the layer's function and in functions that it
#   calls, the mean of {runs} in {emulator}.{cycles}"""
MEASURED = """\
the cycles from the call of the layer's function to its return, by the counter of the
#   core, the mean of {runs} on {emulator}. The time of accelerators is included."""
PARALLEL_JOBS_HEADER = """\
# Layers on {devices} are jobs in parallel with the processor: start_cycle and end_cycle are the
#   job's, after the instructions that start it. Jobs overlap other work in {beside} cycles.
"""

CYCLES, INSTRUCTIONS = "cycles", "instructions"
"""The units of a timeline."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Instructions of the CPU, and their clock cycles; None if the number is not known.

    An emulator without a cycle table counts no cycles, and a board counts no instructions.
    """

    instructions: int | None
    cycles: int | None

    @property
    def amount(self) -> int:
        known = self.instructions if self.cycles is None else self.cycles
        assert known is not None, "one of both is counted"
        return known


@dataclass(frozen=True, slots=True)
class TimedLayer:
    """The cycles or instructions in which a region runs. Both ends are inclusive.

    Both ends belong to a job if the region starts a job in parallel to the processor. ``counted``
    then precedes the job. ``sources`` names the region's operators in the model, and ``operators``
    are their kinds. ``modelled`` is the number of cycles in the device's cost model, or None if the
    device has no cost model, such as the CPU.
    """

    name: str
    start: int
    end: int
    device: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    macs: int
    modelled: Cycles | None
    counted: Counted

    @property
    def length(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class Total:
    """One inference in ``unit``: clock cycles, or instructions if the cycles are unknown.

    ``source`` is the origin of the numbers. ``total`` is the sum of ``modelled`` and
    ``counted``, minus the part in which devices run in parallel. ``milliseconds`` is
    None if there are no cycles or no ``clock`` (in Hz). ``microjoules`` is None unless the platform
    states the energy of a cycle. If the cycles are unknown, ``least_cycles`` may be a lower bound,
    and ``bound`` is its reason.
    """

    unit: str
    source: str
    total: int
    modelled: int
    counted: int
    clock: int | None
    milliseconds: float | None
    microjoules: float | None = field(default=None, kw_only=True)
    least_cycles: int | None = field(default=None, kw_only=True)
    bound: str = field(default="", kw_only=True)

    def describe_bound(self) -> str:
        """Return text such as ``at least 500 cycles (bound: …)``, or '' without a bound."""
        if self.least_cycles is None:
            return ""
        time = ""
        if self.clock is not None:
            shown = format_milliseconds(1000 * self.least_cycles / self.clock)
            time = f", {shown} at {format_frequency(self.clock)}"
        return f"at least {self.least_cycles:,} cycles{time} (bound: {self.bound})"

    def __str__(self) -> str:
        """Return text such as ``about 640,000 cycles, 10 ms at 64 MHz (by the table of M4, …)``."""
        if self.unit == INSTRUCTIONS:
            counted = f"{self.total:,} instructions ({self.source})"
            return ", ".join(filter(None, [counted, self.describe_bound()]))
        time = ""
        if self.clock is not None and self.milliseconds is not None:
            time = f", {format_milliseconds(self.milliseconds)} at {format_frequency(self.clock)}"
        if self.microjoules is not None:
            time += f", {format_microjoules(self.microjoules)}"
        return f"about {self.total:,} cycles{time} ({self.source})"


@dataclass(frozen=True, slots=True)
class Timeline(Total):
    """The layers of one inference, in order of execution. The last entry is the run function."""

    layers: tuple[TimedLayer, ...]


def make_timeline(
    schedule: Schedule,
    partition: Partition,
    kernels: Kernels,
    record: RunRecord,
    run_function: str,
    source: str,
    clock: int | None = None,
    energy: float | None = None,
) -> Timeline:
    """Return the timeline of one inference.

    ``clock`` is the platform's in Hz, and ``energy`` its energy per cycle in pJ.

    Raises UserError if neither instructions nor cycles were counted in the run.
    """
    if record.instructions_total is None and record.cycles_total is None:
        raise UserError(f"{record.emulator} counts no instructions")
    if record.instructions_total is None:
        schedule, kernels = include_devices(schedule, kernels)
    regions = {region.name: region for region in partition.regions}
    steps = [step for step in schedule.steps if not regions[step.region].view]
    counted = count_layers([step.region for step in steps], record)
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    time = Clock()
    layers = []
    for step, amounts in zip(steps, counted, strict=False):
        region, kernel = regions[step.region], kernel_of[step.region]
        time.wait(step.waits)
        heard = {function: name for name, function in kernel.events.items()}
        after = [Wait(heard[event.function], event.pending) for event in step.events]
        start, end = time.run(amounts.amount, kernel.cycles, kernel.wait_function, after)
        layers.append(
            TimedLayer(
                name=region.name,
                start=start,
                end=end - 1,
                device=region.device,
                sources=region.sources,
                operators=region.operators,
                macs=region.macs,
                modelled=kernel.cycles,
                counted=amounts,
            )
        )
    time.wait(schedule.last_waits)
    start, end = time.run(counted[-1].amount, None)
    last = TimedLayer(run_function, start, end - 1, "c", (), (), 0, None, counted[-1])
    modelled = sum(layer.modelled.total for layer in layers if layer.modelled)
    unit = INSTRUCTIONS if record.cycles_total is None and not modelled else CYCLES
    return Timeline(
        unit=unit,
        source=source,
        total=end,
        modelled=modelled,
        counted=sum(each.amount for each in counted),
        clock=clock,
        milliseconds=round(end * 1000 / clock, 3) if clock and unit == CYCLES else None,
        microjoules=round(end * energy / 1e6, 3) if energy and unit == CYCLES else None,
        layers=(*layers, last),
    )


def add_bound(timeline: Timeline, bound: CycleBound | None) -> Timeline:
    """Return the timeline with the minimum number of cycles, if only instructions are known."""
    if timeline.unit == CYCLES or bound is None:
        return timeline
    return replace(timeline, least_cycles=bound.count_cycles(timeline.total), bound=str(bound))


def include_devices(schedule: Schedule, kernels: Kernels) -> tuple[Schedule, Kernels]:
    """Return both without modelled cycles and waits, because a board's counter includes them."""
    steps = tuple(replace(step, waits=(), events=()) for step in schedule.steps)
    without = tuple(replace(k, cycles=None, wait_function=None) for k in kernels.kernels)
    return replace(schedule, steps=steps, last_waits=()), replace(kernels, kernels=without)


def count_layers(regions: Sequence[str], record: RunRecord) -> list[Counted]:
    """Return the means of one inference: of each region, and of the run function at the end."""
    instructions = divide(record.instructions_total, record.instructions_by_region, regions, record)
    cycles = divide(record.cycles_total, record.cycles_by_region, regions, record)
    return [Counted(*each) for each in zip(instructions, cycles, strict=True)]


def divide(
    total: int | None, by_region: Mapping[str, int], regions: Sequence[str], record: RunRecord
) -> Sequence[int | None]:
    if total is None:
        return [None] * (len(regions) + 1)
    executed = [by_region[name] for name in regions]
    return compute_means([*executed, total - sum(executed)], record.samples)


@dataclass
class Clock:
    """The processor's time, and the ends of parallel jobs. The keys are the functions that wait.

    A device begins a job after the processor has started the job. The previous job must be done.
    The jobs of other devices on which the job depends must also be done.
    """

    now: int = 0
    ends: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0]))

    def wait(self, waits: Iterable[Wait]) -> None:
        self.now = max([self.now, *map(self.find_end, waits)])

    def find_end(self, wait: Wait) -> int:
        """Return the time at which all jobs except the pending jobs are done."""
        return self.ends[wait.function][-1 - wait.pending]

    def run(
        self,
        counted: int,
        modelled: Cycles | None,
        beside: str | None = None,
        after: Iterable[Wait] = (),
    ) -> tuple[int, int]:
        """Run a layer. Return the begin and the end of the layer or its job.

        ``beside`` is the function that waits for the layer's job; None if the layer runs on the
        processor. The job begins ``after`` jobs of other devices.
        """
        took = modelled.total if modelled else 0
        before, self.now = self.now, self.now + counted
        if not beside:
            self.now += took
            return before, self.now
        start = max([self.now, self.ends[beside][-1], *map(self.find_end, after)])
        self.ends[beside].append(start + took)
        return start, start + took


def draw_tracks(timeline: Timeline, width: int = 64) -> list[str]:
    """Return one line of ``width`` columns per device: "#" if one of its layers runs, else "."."""
    devices = list(dict.fromkeys(layer.device for layer in timeline.layers))
    longest = max(map(len, devices))
    lines = []
    for device in devices:
        columns = ["."] * width
        for layer in timeline.layers:
            if layer.device == device and layer.length > 0:
                first, last = (at * width // timeline.total for at in (layer.start, layer.end))
                columns[first : last + 1] = "#" * (last + 1 - first)
        lines.append(f"{device:{longest}}  {''.join(columns)}")
    return lines


def compute_means(totals: Sequence[int], samples: int) -> list[int]:
    """Return the totals divided by the number of samples, rounded so that the means add up."""
    sums = (total // samples for total in accumulate(totals, initial=0))
    return [after - before for before, after in pairwise(sums)]


def write_timeline(path: Path, timeline: Timeline, header: str) -> None:
    """Write the layers as YAML, numbered from 1. ``header`` is the comment above them."""
    layers = {number: name_ends(layer, timeline) for number, layer in enumerate(timeline.layers, 1)}
    text = yaml.dump(
        layers, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=96
    )
    path.write_text(header + text, encoding="utf-8", newline="\n")


def name_ends(layer: TimedLayer, timeline: Timeline) -> dict[str, Any]:
    """Return a layer as plain data. The names of both ends contain the unit."""
    names = {end: f"{end}_{name_one(timeline)}" for end in ("start", "end")}
    plain = msgspec.to_builtins(layer)
    return {names.get(key, key): value for key, value in plain.items()}


def name_one(timeline: Timeline) -> str:
    return timeline.unit.removesuffix("s")
