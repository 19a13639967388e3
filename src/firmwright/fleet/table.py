"""A fleet on the terminal: a line for each job that ended, and below them what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.console import Group
from rich.text import Text

from firmwright.bundle.outcome import Outcome
from firmwright.errors import to_printable
from firmwright.terminal.screen import DONE, FAILED, Screen


class FleetScreen(Screen):
    """Shows which job runs on which worker, how many are done, and what each gave."""

    def __init__(self, stream: IO[str], total: int, **options: object) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        super().__init__(stream, tuple, **options)

    def render(self) -> Group:
        """Return a line for each job that runs, and one that counts them all."""
        counts = f"{self.done} of {self.total} done, {self.failed} failed"
        return Group(*super().render().renderables, Text(counts, "dim"))


class Watch:
    """Shows how a fleet goes on a screen."""

    def __init__(self, screen: FleetScreen) -> None:
        self.screen = screen

    def refuse(self, worker: str, reasons: Sequence[str]) -> None:
        head = f"the worker '{worker}' gets no job: "
        self.screen.print_hanging("! ", head + "; ".join(reasons), "bold yellow")

    def start(self, job: str, worker: str) -> None:
        self.screen.start(job, worker, job)

    def lose(self, job: str) -> None:
        self.screen.running.pop(job)
        self.screen.print_hanging("! ", f"{job}: its worker died; another one gets it", "yellow")

    def finish(self, outcome: Outcome) -> None:
        screen = self.screen
        screen.done += 1
        screen.failed += bool(outcome.failure)
        running = screen.running[outcome.job]
        running.stage = f"{screen.done} of {screen.total}"
        running.sentence = describe(outcome)
        screen.finish(outcome.job, FAILED if outcome.failure else DONE)
        for line in outcome.failure.splitlines():
            screen.print_hanging("  ", to_printable(line), "dim")


def describe(outcome: Outcome) -> str:
    """Return what a job gave, as one line."""
    if outcome.failure:
        return outcome.job
    told = [outcome.exact]
    if outcome.cycles is not None:
        told.append(f"{outcome.cycles:,} cycles")
    return f"{outcome.job}: {', '.join(told)}"
