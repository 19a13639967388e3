"""Compares the recipe's budget with the firmware, and lists the largest parts above a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firmwright.documents.quantities import format_frequency
from firmwright.errors import DiagnosticError
from firmwright.pipeline.artifacts import FIRMWARE, FIRMWARE_SIZE, TIMELINE
from firmwright.pipeline.budget import make_diagnostic
from firmwright.pipeline.job import Job
from firmwright.report.timeline import CYCLES, Timeline
from firmwright.toolchain.contributors import find_contributors
from firmwright.toolchain.flash_images import is_in_flash, is_in_ram

MAX_LISTED = 5
"""The maximum number of parts in a message."""

Number = int | float
Use = tuple[str, Number, str, Sequence[tuple[str, Number]]]
"""A key of the budget, the used amount, its unit, and the amount of each part."""


def check_budget(job: Job) -> None:
    """Raise DiagnosticError if the firmware exceeds a part of the budget."""
    if job.recipe.budget is None:
        return
    uses = list(measure(job))
    diagnostics = [
        make_diagnostic(job, key, describe(used, limit, unit, parts))
        for key, used, unit, parts in uses
        if (limit := getattr(job.recipe.budget, key)) is not None and used > limit
    ]
    known = {key for key, *_ in uses}
    no_cycles = "the cycles of no layer are known; state `instructions` instead"
    if job.has_stage("stats") and TIMELINE.find(job) is None:
        no_cycles = "the board has no cycle counter; remove the key"
    stack = FIRMWARE_SIZE.read(job).stacks.get(job.recipe.c_prefix)
    reasons = {
        "cycles": no_cycles,
        "latency": no_cycles,
        "energy": no_cycles,
        "stack": f"{stack}; remove the key",
    }
    diagnostics += [
        make_diagnostic(job, key, reason)
        for key, reason in reasons.items()
        if getattr(job.recipe.budget, key) is not None and key not in known
    ]
    if diagnostics:
        raise DiagnosticError(diagnostics)


def measure(job: Job) -> Iterator[Use]:
    """Yield the firmware's use of each resource that the budget limits."""
    size, elf = FIRMWARE_SIZE.read(job), FIRMWARE.path(job)
    stored = find_contributors(elf, lambda section: is_in_flash(section, job.platform))
    written = find_contributors(elf, lambda section: is_in_ram(section, job.platform))
    yield "flash", size.flash_bytes, "bytes", stored
    yield "ram", size.ram_bytes, "bytes", written
    stack = size.stacks.get(job.recipe.c_prefix)
    if stack is not None and stack.bytes is not None:
        frames = order_parts([frame for frame in stack.frames if frame[1]])
        yield "stack", stack.bytes, "bytes", frames
    timeline = TIMELINE.find(job)
    if timeline is not None:
        yield from measure_time(timeline)


def measure_time(timeline: Timeline) -> Iterator[Use]:
    counted = [(layer.name, layer.counted.instructions) for layer in timeline.layers]
    executed = [(name, number) for name, number in counted if number is not None]
    if executed:
        yield "instructions", sum(n for _, n in executed), "instructions", order_parts(executed)
    if timeline.unit != CYCLES:
        return
    parts = order_parts([(layer.name, layer.length) for layer in timeline.layers])
    yield "cycles", timeline.total, f"cycles ({timeline.source})", parts
    if timeline.milliseconds is not None and timeline.clock is not None:
        milliseconds = timeline.milliseconds / timeline.total
        times = [(name, round(length * milliseconds, 3)) for name, length in parts]
        unit = f"ms at {format_frequency(timeline.clock)} ({timeline.source})"
        yield "latency", 1000 * timeline.total / timeline.clock, unit, times
    if timeline.microjoules is not None:
        share = timeline.microjoules / timeline.total
        energies = [(name, round(length * share, 3)) for name, length in parts]
        yield "energy", timeline.microjoules, f"µJ ({timeline.source})", energies


def order_parts(parts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(parts, key=lambda part: (-part[1], part[0]))


def describe(used: Number, limit: Number, unit: str, parts: Sequence[tuple[str, Number]]) -> str:
    """Return a message with the used amount, the limit and the largest parts."""
    short = unit.partition(" ")[0]
    excess = f"{round(used - limit, 3):,} {short} more than the limit of {limit:,} {short}"
    lines = [f"{used:,} {unit}, {excess}; the largest:"]
    lines += [f"  {100 * n / used:4.1f} %  {n:,}  {name}" for name, n in parts[:MAX_LISTED]]
    return "\n".join(lines)
