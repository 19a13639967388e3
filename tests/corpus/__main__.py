"""`python -m tests.corpus FOLDER`: builds every model of a folder; writes CSV and Markdown.

A second call continues after the last model: models whose bytes are in the table are not built
again.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple, fields
from pathlib import Path

from tests.corpus.build import OUTCOMES, Limits, Row, build_model, digest_of, find_models

COLUMNS = [field.name for field in fields(Row)]


def read_rows(table: Path) -> list[Row]:
    """Return the rows of an earlier call; empty if the table does not exist."""
    if not table.is_file():
        return []
    with table.open(newline="", encoding="utf-8") as stream:
        return [
            Row(r["file"], r["digest"], r["outcome"], float(r["seconds"]), r["message"])
            for r in csv.DictReader(stream)
        ]


def build_all(folder: Path, table: Path, limits: Limits, jobs: int) -> list[Row]:
    """Build the models that the table lacks, and append a row after each build."""
    rows = read_rows(table)
    done = {(row.file, row.digest) for row in rows}
    models = [
        m for m in find_models(folder) if (str(m.relative_to(folder)), digest_of(m)) not in done
    ]
    with table.open("a", newline="", encoding="utf-8") as stream, ThreadPoolExecutor(jobs) as pool:
        writer = csv.writer(stream, lineterminator="\n")
        if not rows:
            writer.writerow(COLUMNS)
        for future in as_completed(pool.submit(build_model, m, folder, limits) for m in models):
            row = future.result()
            rows.append(row)
            writer.writerow(astuple(row))
            stream.flush()
            print(
                f"{row.outcome:9} {row.seconds:6.1f} s  {row.file}  {row.message[:120]}", flush=True
            )
    return sorted(rows, key=lambda row: row.file)


def write_page(rows: Sequence[Row]) -> str:
    """Return the table in Markdown: a count of each outcome, then a row per model."""
    counts = Counter(row.outcome for row in rows)
    summary = ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o])
    lines = [f"{len(rows)} models: {summary}.", "", "| file | outcome | seconds | message |"]
    lines.append("|---|---|---|---|")
    for row in rows:
        message = row.message.replace("|", "\\|")
        lines.append(f"| {row.file} | {row.outcome} | {row.seconds:.1f} | {message} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.corpus", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--platform", help="the default is the one that `init` chooses")
    parser.add_argument("--jobs", type=int, default=1, help="models that are built at once")
    parser.add_argument("--seconds", type=float, default=300, help="time limit of each model")
    parser.add_argument("--gigabytes", type=float, default=8, help="address space of each process")
    parser.add_argument("--table", type=Path, default=Path("corpus.csv"))
    stated = parser.parse_args(arguments)
    limits = Limits(stated.seconds, int(stated.gigabytes * 2**30), stated.platform)
    rows = build_all(stated.folder, stated.table, limits, stated.jobs)
    stated.table.with_suffix(".md").write_text(write_page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
