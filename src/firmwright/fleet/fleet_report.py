"""Writes the report of a fleet: the result of each job, and the changes since the last run.

The bytes of the report depend only on the outcomes of the two runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError
from firmwright.ir.records import format_record
from firmwright.report.outcomes import Outcome, Outcomes

RESULTS, SCHEMA = "fleet.json", "outcomes.schema.json"
"""The file with the outcomes, and its schema. The next run reads the file for a comparison."""
MARKDOWN, PAGE = "fleet.md", "fleet.html"
START = "index.html"
"""The page that a web server shows for the folder. It redirects to PAGE."""
REDIRECT = (
    f'<!DOCTYPE html><title>Fleet</title><meta http-equiv="refresh" content="0; url={PAGE}">\n'
)

MEASURES = ("flash", "ram", "batch", "offload")
COLUMNS = ("job", "exact?", "time", "flash", "RAM", "batch", "offload", "since the last run")
UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True)
class JobRow:
    """A job in the table: its cells in the order of COLUMNS, and the message if the job failed.

    ``page`` is the path of the build's report, relative to the table.
    """

    cells: tuple[str, ...]
    failure: str
    page: str = ""


Pairs = Mapping[str, tuple[str, str]]
"""Maps each job to its recipe and its platform."""


@dataclass(frozen=True)
class Grid:
    """The first table: a row per recipe, and a column per platform. A missing build is None."""

    platforms: tuple[str, ...]
    lines: tuple[tuple[str, tuple[JobRow | None, ...]], ...]


def make_grid(pairs: Pairs, rows: Sequence[JobRow]) -> Grid | None:
    """Return the table, or None if there is only one recipe or one platform.

    Also None if two jobs have the same recipe and platform, and differ in other options.
    """
    recipes, platforms = ([*dict.fromkeys(names)] for names in zip(*pairs.values(), strict=True))
    by_pair = {pairs[row.cells[0]]: row for row in rows}
    if min(len(recipes), len(platforms)) < 2 or len(by_pair) < len(rows):
        return None
    lines = ((r, tuple(by_pair.get((r, p)) for p in platforms)) for r in recipes)
    return Grid(tuple(platforms), tuple(lines))


def summarize(row: JobRow | None) -> str:
    """Return the result and the time of a job, or the result alone if the time is unknown."""
    return "" if row is None else ", ".join(c for c in row.cells[1:3] if c not in ("", UNKNOWN))


def read_results(path: Path) -> dict[str, Outcome]:
    """Map the jobs of the last run to their outcomes, or return {} if there was no run.

    Raises UserError if the file is damaged.
    """
    try:
        results = msgspec.json.decode(path.read_bytes(), type=Outcomes)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{path}: not the results of a fleet: {error}; remove it") from None
    return {outcome.job: outcome for outcome in results.outcomes}


def write_report(
    folder: Path,
    jobs: Sequence[str],
    outcomes: Mapping[str, Outcome],
    before: Mapping[str, Outcome],
    pairs: Pairs,
) -> None:
    """Write the results as JSON, Markdown and a page into a folder.

    A job without an outcome keeps its result from ``before``. ``pairs`` has all jobs.
    """
    made = [make_row(job, outcomes.get(job), before.get(job)) for job in jobs]
    columns, rows = drop_unknown(COLUMNS, [replace(r, page=find_page(folder, r)) for r in made])
    kept = [outcomes.get(job) or before.get(job) for job in jobs]
    results = Outcomes(tuple(outcome for outcome in kept if outcome is not None))
    head = ". ".join([count(jobs, outcomes), *describe_sources(outcomes.values())])
    grid = make_grid(pairs, rows)
    markdown = render_markdown(head, grid, columns, rows).encode()
    if not (is_idle(jobs, outcomes, before) and shows(folder, markdown)):
        write_whole(folder / MARKDOWN, markdown)
        write_whole(folder / PAGE, render_page(head, grid, columns, rows).encode())
        write_whole(folder / START, REDIRECT.encode())
    write_whole(folder / RESULTS, format_record(results, SCHEMA).encode())


def is_idle(
    jobs: Iterable[str], outcomes: Mapping[str, Outcome], before: Mapping[str, Outcome]
) -> bool:
    """Return whether all builds were up to date, so that each outcome is the object in ``before``.

    Another version of firmwright, whose page may differ, builds the jobs again.
    """
    return all(job in outcomes and outcomes[job] is before.get(job) for job in jobs)


def shows(folder: Path, markdown: bytes) -> bool:
    """Return whether the report in a folder has the rows of ``markdown``."""
    file = folder / MARKDOWN
    return (folder / PAGE).is_file() and file.is_file() and file.read_bytes() == markdown


def count(jobs: Sequence[str], outcomes: Mapping[str, Outcome]) -> str:
    """Return a text such as ``57 of 60 built, 3 failed``."""
    failed = sum(bool(outcome.failure) for outcome in outcomes.values())
    missing = len(jobs) - len(outcomes)
    parts = [f"{len(outcomes) - failed} of {len(jobs)} built"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{missing} not tried"] if missing else []
    return ", ".join(parts)


def describe_sources(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a sentence about the sources of the times, or [] if no time is known."""
    sources = sorted({outcome.source for outcome in outcomes} - {""})
    return [f"Times: {'; '.join(sources)}"] if sources else []


def make_row(job: str, now: Outcome | None, before: Outcome | None) -> JobRow:
    if now is None:
        return JobRow((job, "not tried", *[""] * (len(COLUMNS) - 2)), "")
    values = (now.time or None, now.flash, now.ram, now.batch, now.offload)
    cells = ("failed", *[""] * 5) if now.failure else (now.exact, *map(show, values))
    return JobRow((job, *cells, describe_change(now, before)), now.failure)


def show(value: object) -> str:
    """Return a value as a text, or a dash for an unknown value."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return f"{value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else str(value)


def describe_change(now: Outcome, before: Outcome | None) -> str:
    """Return the changes of an outcome, or '' if the bundles have equal bytes."""
    if before is None:
        return "new"
    if now.failure or before.failure:
        if now.failure and before.failure:
            return "failed before"
        return "was built before" if now.failure else "failed before, built now"
    if now.sha256 == before.sha256:
        return ""
    changes = [compare("", before.exact, now.exact), compare_times(before, now)]
    changes += [compare(name, getattr(before, name), getattr(now, name)) for name in MEASURES]
    return "; ".join(filter(None, changes)) or "other bytes"


def compare_times(before: Outcome, now: Outcome) -> str:
    """Return the change of an inference's time, without a percentage if the units differ."""
    if before.unit == now.unit:
        return compare(now.unit, before.total, now.total)
    return compare("time", before.time or None, now.time or None)


def compare(name: str, before: object, now: object) -> str:
    """Return a text such as ``cycles 200 → 150 (-25.0 %)``, or '' if the values are equal."""
    if before == now:
        return ""
    rate = ""
    if isinstance(before, int) and isinstance(now, int) and before:
        rate = f" ({100 * (now - before) / before:+.1f} %)"
    label = {"": "", "ram": "RAM "}.get(name, f"{name} ")
    return f"{label}{show(before)} → {show(now)}{rate}"


def find_page(folder: Path, row: JobRow) -> str:
    """Return the relative path of a job's report. It is '' for a job without a report."""
    pages = () if row.failure else sorted((folder / row.cells[0]).glob("*.html"))
    return "/".join(pages[0].parts[-2:]) if pages else ""


def drop_unknown(
    columns: Sequence[str], rows: Sequence[JobRow]
) -> tuple[tuple[str, ...], tuple[JobRow, ...]]:
    """Omit the columns without a known value, such as the offload of targets with one device."""
    kept = [
        number
        for number, name in enumerate(columns)
        if name not in ("batch", "offload")
        or any(row.cells[number] not in ("", UNKNOWN) for row in rows)
    ]
    shown = (replace(row, cells=tuple(row.cells[number] for number in kept)) for row in rows)
    return tuple(columns[number] for number in kept), tuple(shown)


def render_markdown(
    head: str, grid: Grid | None, columns: Sequence[str], rows: Sequence[JobRow]
) -> str:
    lines = ["# Fleet", "", f"{head}.", ""]
    if grid:
        names = ("recipe", *grid.platforms)
        lines += [make_line(names), make_line(["---"] * len(names))]
        lines += [make_line([recipe, *map(summarize, cells)]) for recipe, cells in grid.lines]
        lines.append("")
    lines += [make_line(columns), make_line(["---"] * len(columns))]
    lines += [make_line(row.cells) for row in rows]
    for row in rows:
        if row.failure:
            quoted = [f"    {line}" for line in row.failure.splitlines()]
            lines += ["", f"## {row.cells[0]}", "", *quoted]
    return "\n".join(lines) + "\n"


def make_line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def render_page(
    head: str, grid: Grid | None, columns: Sequence[str], rows: Sequence[JobRow]
) -> str:
    """Return the page: one file, in the style of a build's report."""
    # Imported late, because a fleet without changes writes no page.
    from firmwright.report.page_templates import FOLDER, make_page_environment, read_asset

    page = make_page_environment().get_template(f"{FOLDER}/fleet.html.j2")
    shown = {"head": head, "grid": grid, "columns": columns, "rows": rows, "summarize": summarize}
    return page.render(**shown, css=read_asset("report.css.j2"))
