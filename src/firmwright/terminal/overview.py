"""Formats the results of several builds as a table with one row per build."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from firmwright.bundle.outcome import make_outcome

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job

COLUMNS = ("outputs", "cycles", "flash", "RAM")
NOTHING = "-"
"""The text for an unknown number."""


def format_overview(jobs: Sequence[Job], done: Collection[str]) -> Iterator[str]:
    """Yield the lines of the table; ``done`` are the names of the tasks that have succeeded."""
    built = [job for job in jobs if job.task_name("bundle") in done]
    head = f"{len(built)} of {len(jobs)} built"
    rows = [(head, *COLUMNS), *((job.title, *describe(job, job in built)) for job in jobs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, outputs, *numbers in rows:
        right = (f"{n:>{width}}" for n, width in zip(numbers, widths[2:], strict=True))
        yield "  ".join((title.ljust(widths[0]), outputs.ljust(widths[1]), *right)).rstrip()


def describe(job: Job, built: bool) -> tuple[str, ...]:
    """Return the cells of a build after its title."""
    if not built:
        return ("not built", *[""] * (len(COLUMNS) - 1))
    manifest = msgspec.json.decode((job.folder("bundle") / "manifest.json").read_bytes())
    found = make_outcome(job.title, manifest)
    numbers = (found.cycles, found.flash, found.ram)
    return (found.exact, *(NOTHING if n is None else f"{n:,}" for n in numbers))
