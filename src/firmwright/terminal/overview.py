"""Formats the results of several builds as a table with one row per build."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from firmwright.bundle.outcome import make_outcome
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.snapshot import UpToDate
from firmwright.report.outcomes import Outcome

COLUMNS = ("outputs", "time", "flash", "RAM")
NOT_BUILT = "not built"
NOTHING = "-"
"""The text for an unknown number."""


def format_overview(builds: Sequence[UpToDate], done: Collection[str]) -> Iterator[str]:
    """Yield the lines of the table. ``done`` are the tasks of the builds that have succeeded."""
    head = f"{sum(each.task in done for each in builds)} of {len(builds)} built"
    outcomes = [read_outcome(each) if each.task in done else None for each in builds]
    described = (describe(outcome) for outcome in outcomes)
    rows = [
        (head, *COLUMNS),
        *((b.title, *cells) for b, cells in zip(builds, described, strict=True)),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, outputs, *numbers in rows:
        right = (f"{n:>{width}}" for n, width in zip(numbers, widths[2:], strict=True))
        yield "  ".join((title.ljust(widths[0]), outputs.ljust(widths[1]), *right)).rstrip()
    for source in sorted({outcome.source for outcome in outcomes if outcome} - {""}):
        yield f"time: {source}"


def collect_outcomes(
    builds: Iterable[UpToDate], done: Collection[str], failures: Mapping[str, str]
) -> Iterator[Outcome]:
    """Yield the outcome of each build. ``failures`` are the messages by the builds' titles."""
    for each in builds:
        name = each.task.partition(":")[2]
        if each.task in done:
            digest = file_digest(each.bundle)
            outcome = make_outcome(
                name, msgspec.json.decode(Path(each.manifest).read_bytes()), digest
            )
            yield replace(outcome, bundle=each.bundle)
        else:
            yield Outcome(name, failures.get(each.title, NOT_BUILT))


def read_outcome(build: UpToDate) -> Outcome:
    return make_outcome(build.title, msgspec.json.decode(Path(build.manifest).read_bytes()))


def describe(outcome: Outcome | None) -> tuple[str, ...]:
    """Return the cells of a build after its title. ``outcome`` is None if it was not built."""
    if outcome is None:
        return (NOT_BUILT, *[""] * (len(COLUMNS) - 1))
    numbers = (outcome.flash, outcome.ram)
    return (
        outcome.exact,
        outcome.time or NOTHING,
        *(NOTHING if n is None else f"{n:,}" for n in numbers),
    )
