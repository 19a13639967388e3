"""Shows lines on a terminal, and the running tasks below them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from firmwright import run_log
from firmwright.errors import to_printable
from firmwright.progress import Progress
from firmwright.report.rows import Part

from .guard import guard_output
from .screen import PLAIN_WIDTH, Screen

NARROWEST = 20
"""The minimum number of columns of wrapped text, also on a narrower terminal."""
REFRESHES = 8
"""The number of refreshes per second."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class LiveScreen(Screen):
    """Prints on a terminal of any width, in color, and shows the progress of tasks."""

    is_live = True

    def __init__(
        self,
        stream: TextIO,
        events: Callable[[], Iterable[Progress]],
        count: Callable[[], str],
        **options: object,
    ) -> None:
        """Create the console with ``options``. `open_screen` documents the other parameters."""
        super().__init__(stream)
        self.events = events
        self.count = count
        self.console = Console(
            file=stream,
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
            **options,  # type: ignore[arg-type]
        )
        self.live = Live(
            get_renderable=self.render,
            console=self.console,
            transient=True,
            refresh_per_second=REFRESHES,
            redirect_stderr=sys.stderr.isatty(),
        )

    @property
    def line_width(self) -> int:  # type: ignore[override]
        return min(self.console.width, PLAIN_WIDTH)

    def start(self, task: str, stage: str, sentence: str) -> None:
        super().start(task, stage, sentence)
        self.live.start()
        guard_output()  # rich has replaced the standard error stream

    def finish(self, task: str, mark: Part) -> None:
        """Replace the progress of a running task by the final line."""
        if self.running.keys() == {task}:
            self.live.stop()
        super().finish(task, mark)

    def close(self) -> None:
        self.live.stop()

    def render(self) -> Group:
        now = self.clock()
        for event in self.events():
            task = self.running.get(event.task)
            if task is not None:
                before = task.progress
                if before is None or (before.unit, before.total) != (event.unit, event.total):
                    task.since = now
                task.progress = event
        mark = self.find_mark(now)
        lines = [
            self.make_line(mark, task.stage, task.describe(now), now - task.started)
            for task in self.running.values()
        ]
        if counted := self.count():
            lines.append([(counted, "dim")])
        return Group(*(assemble(line) for line in lines))

    def find_mark(self, now: float) -> Part:
        return SPINNER[int(now * REFRESHES) % len(SPINNER)], "cyan"

    def fit(self, text: str, columns: int) -> str:
        fitting = Text(text)
        fitting.truncate(columns, overflow="ellipsis", pad=True)
        return fitting.plain

    def print_line(self, parts: Sequence[Part]) -> None:
        self.show(assemble(parts))

    def print_beside(self, head: str, body: Sequence[Part]) -> None:
        """Print text next to a head. Later lines are aligned with the text's first line."""
        room = max(self.console.width - len(head), NARROWEST)
        lines = assemble(body).split("\n")
        wrapped = [part for line in lines for part in line.wrap(self.console, room)]
        for number, line in enumerate(wrapped):
            shown = Text.assemble((head if number == 0 else " " * len(head), "dim"), line)
            shown.rstrip()
            self.show(shown)

    def show(self, line: Text) -> None:
        run_log.note(line.plain)
        self.console.print(line, soft_wrap=True)


def assemble(parts: Sequence[Part]) -> Text:
    """Return styled text without control characters, except for the styles."""
    return Text.assemble(*((to_printable(text), style) for text, style in parts))
