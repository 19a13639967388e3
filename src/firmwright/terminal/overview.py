"""Formats the results of several builds as a table with one row per build."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from firmwright.bundle.outcome import Outcome, make_outcome

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job

COLUMNS = ("outputs", "time", "flash", "RAM")
NOTHING = "-"
"""The text for an unknown number."""


def format_overview(jobs: Sequence[Job], done: Collection[str]) -> Iterator[str]:
    """Yield the lines of the table; ``done`` are the names of the tasks that have succeeded."""
    built = [job for job in jobs if job.task_name("bundle") in done]
    head = f"{len(built)} of {len(jobs)} built"
    outcomes = [read_outcome(job) if job in built else None for job in jobs]
    described = (describe(outcome) for outcome in outcomes)
    rows = [
        (head, *COLUMNS),
        *((j.title, *cells) for j, cells in zip(jobs, described, strict=True)),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, outputs, *numbers in rows:
        right = (f"{n:>{width}}" for n, width in zip(numbers, widths[2:], strict=True))
        yield "  ".join((title.ljust(widths[0]), outputs.ljust(widths[1]), *right)).rstrip()
    for source in sorted({outcome.source for outcome in outcomes if outcome} - {""}):
        yield f"time: {source}"


def read_outcome(job: Job) -> Outcome:
    manifest = msgspec.json.decode((job.folder("bundle") / "manifest.json").read_bytes())
    return make_outcome(job.title, manifest)


def describe(found: Outcome | None) -> tuple[str, ...]:
    """Return the cells of a build after its title; ``found`` is None if it was not built."""
    if found is None:
        return ("not built", *[""] * (len(COLUMNS) - 1))
    numbers = (found.flash, found.ram)
    return (
        found.exact,
        found.time or NOTHING,
        *(NOTHING if n is None else f"{n:,}" for n in numbers),
    )
