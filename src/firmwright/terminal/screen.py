"""Prints plain lines of a build to a file. `live_screen` prints to a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TextIO

from firmwright import run_log
from firmwright.errors import to_printable
from firmwright.pipeline.profile import Times
from firmwright.progress import BYTES, Progress
from firmwright.report.rows import Part, Row

PLAIN_WIDTH = 80
"""The number of columns of a stage's line in a file, and the maximum on a terminal."""
STAGE_WIDTH = 13
TIME_WIDTH = 12
SHOW_AFTER = 2.0
"""The number of seconds after which a stage shows its progress."""

DONE, FAILED = ("✓", "green"), ("✗", "red")
ASCII_MARKS = {"✓": "+", "✗": "x"}


@dataclass
class Running:
    """A running stage. ``started`` is its start in seconds, ``since`` is the start of its loop."""

    stage: str
    sentence: str
    started: float
    progress: Progress | None = None
    since: float = 0.0

    def describe(self, now: float) -> str:
        """Return the stage's sentence; after SHOW_AFTER, its progress and remaining time."""
        known = self.progress
        if known is None or not known.total or now - self.started < SHOW_AFTER:
            return self.sentence
        share = f"{100 * known.done // known.total} %"
        counted = (
            share if known.unit == BYTES else f"{known.done:,} of {known.total:,} {known.unit}"
        )
        if not 0 < known.done < known.total:
            return counted
        left = (now - self.since) * (known.total - known.done) / known.done
        return f"{counted}, {format_time(left)} left"


class Screen:
    """Prints plain lines of any length, for a file."""

    is_live = False
    """Whether the screen shows the progress of tasks."""

    line_width = PLAIN_WIDTH
    """The number of columns of a stage's line."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.running: dict[str, Running] = {}
        self.clock = time.monotonic

    def start(self, task: str, stage: str, sentence: str) -> None:
        self.running[task] = Running(stage, sentence, self.clock())

    def finish(self, task: str, mark: Part) -> None:
        """Print the line of a task that has ended."""
        ended = self.running.pop(task)
        shown, style = mark
        if not (self.stream.encoding or "utf-8").lower().startswith("utf"):
            shown = ASCII_MARKS[shown]
        seconds = self.clock() - ended.started
        self.print_line(self.make_line((shown, style), ended.stage, ended.sentence, seconds))

    def close(self) -> None:
        """Remove the lines of running tasks."""

    def make_line(self, mark: Part, stage: str, sentence: str, seconds: float) -> list[Part]:
        """Return a line with the time at its end. Sentences that are too long are cut."""
        room = self.line_width - len(mark[0]) - 1 - STAGE_WIDTH - TIME_WIDTH
        took = (format_time(seconds).rjust(TIME_WIDTH), "dim")
        name = (f" {stage:{STAGE_WIDTH - 1}} ", "bold")
        return [mark, name, (self.fit(sentence, max(room, 0)), ""), took]

    def fit(self, text: str, columns: int) -> str:
        """Return text with exactly ``columns`` columns, cut or padded."""
        return f"{text:{columns}}" if len(text) <= columns else f"{text[: columns - 1]}…"

    def print_line(self, parts: Sequence[Part]) -> None:
        try:
            text = to_printable("".join(text for text, _ in parts))
            run_log.note(text)
            print(text, file=self.stream, flush=True)
        except BrokenPipeError:  # the output is closed; Python would report this error at its exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
            sys.exit(1)

    def print_head(self, title: str) -> None:
        self.print_line([(title, "bold")])

    def print_hanging(self, head: str, text: str, style: str = "") -> None:
        self.print_beside(head, [(text, style)])

    def print_beside(self, head: str, body: Sequence[Part]) -> None:
        """Print text next to a head. Later lines are aligned with the text's first line."""
        lines = "".join(text for text, _ in body).split("\n")
        for number, line in enumerate(lines):
            shown = head if number == 0 else " " * len(head)
            self.print_line([(f"{shown}{line}".rstrip(), "")])

    def print_rows(self, rows: Sequence[Row]) -> None:
        width = max(len(row.label) for row in rows)
        for row in rows:
            self.print_beside(f"  {row.label:{width}}  ", row.parts)


def format_time(seconds: float) -> str:
    """Return a text such as ``0.4 s`` or ``2 min 05 s``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def format_times(stages: Mapping[str, Times]) -> Iterator[str]:
    """Yield the lines of a table of seconds: a row for each stage and one row for the total."""
    names = [field.name for field in fields(Times)]
    yield "seconds     " + "".join(f"{name:>10}" for name in names)
    columns = [[getattr(times, name) for times in stages.values()] for name in names]
    rows = zip(stages, zip(*columns, strict=True), strict=True)
    for label, row in (*rows, ("all", [sum(column) for column in columns])):
        yield f"{label:12}" + "".join(f"{seconds:10.3f}" for seconds in row)
