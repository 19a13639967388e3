"""Runs the samples of one firmware in several emulators at once, and joins their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from firmwright.data.samples import Sample
from firmwright.emulator.execution import ClockCycles, Execution
from firmwright.system import count_cores

from .protocol import join_consoles

WORTHWHILE = 20_000_000
"""The minimum number of multiply-accumulates for a second emulator. For less work, the emulator
starts too late.
"""


def run_side_by_side(
    execute: Callable[[Sequence[Sample]], Execution], samples: Sequence[Sample], macs: int
) -> Execution:
    """Run samples, of ``macs`` each, on as many emulators as there are cores.

    The samples of the firmware must be independent. An emulator is a separate process, or releases
    the interpreter lock. Raises the error of ``execute`` for the first samples that fail.
    """
    count = min(count_cores(), len(samples), macs * len(samples) // WORTHWHILE)
    if count < 2:
        return execute(samples)
    bounds = [len(samples) * part // count for part in range(count + 1)]
    parts = [samples[bounds[part] : bounds[part + 1]] for part in range(count)]
    with ThreadPoolExecutor(count) as pool:
        return join_executions([*pool.map(execute, parts)], [len(part) for part in parts])


def join_executions(ran: Sequence[Execution], samples: Sequence[int]) -> Execution:
    """Return the result of one run of all samples, or the first run that failed."""
    failed = next((execution for execution in ran if execution.exit_code != 0), None)
    if failed is not None:
        return failed
    return replace(
        ran[0],
        console=join_consoles([execution.console for execution in ran], samples),
        instructions=add_counts([execution.instructions for execution in ran]),
        by_symbol=add_named([execution.by_symbol for execution in ran]),
        by_part=add_parts([execution.by_part for execution in ran]),
        cycles=add_cycles([execution.cycles for execution in ran]),
        notes=tuple(dict.fromkeys(note for execution in ran for note in execution.notes)),
    )


def add_cycles(counted: Sequence[ClockCycles | None]) -> ClockCycles | None:
    known = [cycles for cycles in counted if cycles is not None]
    if len(known) < len(counted):
        return None
    return ClockCycles(
        source=known[0].source,
        total=sum(cycles.total for cycles in known),
        by_part=add_parts([cycles.by_part for cycles in known]),
        by_symbol=add_named([cycles.by_symbol for cycles in known]),
        stalls=add_named([cycles.stalls for cycles in known]),
    )


def add_named(counted: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in counted:
        total.update(counts)
    return dict(total)


def add_counts(counted: Sequence[int | None]) -> int | None:
    return None if None in counted else sum(filter(None, counted))


def add_parts(counted: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*counted, strict=True)))
