"""Lines on the terminal, and below them what is running."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from firmwright.errors import to_printable
from firmwright.pipeline.profile import Times
from firmwright.progress import BYTES, Progress
from firmwright.report.rows import Row

PLAIN_WIDTH = 80
"""Columns of a stage's line where there is no terminal, and at most where there is one."""
STAGE_WIDTH = 13
TIME_WIDTH = 12
NARROWEST = 20
"""Columns of text that is wrapped, however narrow the terminal is."""
SHOW_AFTER = 2.0
"""Seconds after which a stage shows how far it is."""
REFRESHES = 8
"""A second."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

DONE, FAILED = ("✓", "green"), ("✗", "red")
ASCII_MARKS = {"✓": "+", "✗": "x"}


@dataclass
class Running:
    """A stage that runs, since ``started`` (s); ``since`` is when its present loop began."""

    stage: str
    sentence: str
    started: float
    progress: Progress | None = None
    since: float = 0.0

    def describe(self, now: float) -> str:
        """Return the sentence or, when it takes longer, how far it is and the time left."""
        known = self.progress
        if known is None or not known.total or now - self.started < SHOW_AFTER:
            return self.sentence
        share = f"{100 * known.done // known.total} %"
        counted = share if known.unit == BYTES else f"{known.done} of {known.total} {known.unit}"
        if not 0 < known.done < known.total:
            return counted
        left = (now - self.since) * (known.total - known.done) / known.done
        return f"{counted}, {format_time(left)} left"


class Screen:
    """Prints on a terminal of any width; to a file plain text, without progress."""

    def __init__(
        self, stream: IO[str], events: Callable[[], Iterable[Progress]] = tuple, **options: object
    ) -> None:
        """``events`` gives the progress since it was called last; ``options`` are the console's."""
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False, **options)  # type: ignore[arg-type]
        self.events = events
        self.running: dict[str, Running] = {}
        self.clock = time.monotonic
        self.live = Live(
            get_renderable=self.render,
            console=self.console,
            transient=True,
            refresh_per_second=REFRESHES,
            redirect_stderr=sys.stderr.isatty(),
        )

    @property
    def line_width(self) -> int:
        """Columns of a stage's line."""
        return min(self.console.width, PLAIN_WIDTH) if self.console.is_terminal else PLAIN_WIDTH

    def start(self, task: str, stage: str, sentence: str) -> None:
        self.running[task] = Running(stage, sentence, self.clock())
        if self.console.is_terminal:
            self.live.start()

    def finish(self, task: str, mark: tuple[str, str]) -> None:
        """Replace what is shown of a running task by the line that stays."""
        ended = self.running.pop(task)
        if not self.running:
            self.live.stop()
        shown, style = mark
        if not self.console.encoding.startswith("utf"):
            shown = ASCII_MARKS[shown]
        seconds = self.clock() - ended.started
        self.console.print(
            self.make_line(Text(shown, style), ended.stage, ended.sentence, seconds),
            soft_wrap=True,
        )

    def close(self) -> None:
        self.live.stop()

    def make_line(self, mark: Text, stage: str, sentence: str, seconds: float) -> Text:
        """Return a line with the time at its end; a sentence that is too long is cut."""
        text = Text(sentence)
        room = self.line_width - len(mark) - 1 - STAGE_WIDTH - TIME_WIDTH
        text.truncate(max(room, 0), overflow="ellipsis", pad=True)
        took = Text(format_time(seconds).rjust(TIME_WIDTH), "dim")
        return Text.assemble(mark, " ", (f"{stage:{STAGE_WIDTH - 1}} ", "bold"), text, took)

    def render(self) -> Group:
        """Return a line for each task that runs."""
        now = self.clock()
        for event in self.events():
            task = self.running.get(event.task)
            if task is not None:
                before = task.progress
                if before is None or (before.unit, before.total) != (event.unit, event.total):
                    task.since = now
                task.progress = event
        mark = self.render_mark(now)
        lines = [
            self.make_line(mark, task.stage, task.describe(now), now - task.started)
            for task in self.running.values()
        ]
        return Group(*lines)

    def render_mark(self, now: float) -> Text:
        return Text(SPINNER[int(now * REFRESHES) % len(SPINNER)], "cyan")

    def print_head(self, title: str) -> None:
        self.console.print(Text(title, "bold"), soft_wrap=True)

    def print_hanging(self, head: str, body: Text | str, style: str = "") -> None:
        """Print text beside a head; on a terminal it is wrapped, and goes on below itself."""
        text = Text(to_printable(body), style) if isinstance(body, str) else body
        lines = [*text.split("\n")]
        if self.console.is_terminal:
            room = max(self.console.width - len(head), NARROWEST)
            lines = [part for line in lines for part in line.wrap(self.console, room)]
        for number, line in enumerate(lines):
            shown = Text.assemble((head if number == 0 else " " * len(head), "dim"), line)
            shown.rstrip()
            self.console.print(shown, soft_wrap=True)

    def print_rows(self, rows: Sequence[Row]) -> None:
        """Print a table: the labels on the left, what they say beside them."""
        width = max(len(row.label) for row in rows)
        for row in rows:
            self.print_hanging(f"  {row.label:{width}}  ", Text.assemble(*row.parts))


def format_time(seconds: float) -> str:
    """Return e.g. ``0.4 s`` or ``2 min 05 s``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def format_times(stages: Mapping[str, Times]) -> Iterator[str]:
    """Yield the lines of a table of seconds, a row for each stage and one for all."""
    names = [field.name for field in fields(Times)]
    yield "seconds     " + "".join(f"{name:>10}" for name in names)
    columns = [[getattr(times, name) for times in stages.values()] for name in names]
    rows = zip(stages, zip(*columns, strict=True), strict=True)
    for label, row in (*rows, ("all", [sum(column) for column in columns])):
        yield f"{label:12}" + "".join(f"{seconds:10.2f}" for seconds in row)
