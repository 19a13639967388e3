"""Shows a fleet on the terminal: one line per finished job, and the running jobs below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from firmwright.report.outcomes import Outcome
from firmwright.terminal.open_screen import open_screen
from firmwright.terminal.screen import DONE, FAILED


class ProgressTable:
    """Shows the job of each worker, the number of finished jobs, and their results."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.screen = open_screen(stream, count=self.count)

    def count(self) -> str:
        return f"{self.done} of {self.total} done, {self.failed} failed"

    def refuse(self, worker: str, reasons: Sequence[str]) -> None:
        head = f"the worker '{worker}' gets no job: "
        self.screen.print_hanging("! ", head + "; ".join(reasons), "bold yellow")

    def start(self, job: str, worker: str) -> None:
        self.screen.start(job, worker, job)

    def lose(self, job: str) -> None:
        self.screen.running.pop(job)
        self.screen.print_hanging(
            "! ", f"{job}: its worker ended; another worker runs it", "yellow"
        )

    def finish(self, outcome: Outcome) -> None:
        self.done += 1
        self.failed += bool(outcome.failure)
        running = self.screen.running[outcome.job]
        running.stage = f"{self.done} of {self.total}"
        running.sentence = describe(outcome)
        self.screen.finish(outcome.job, FAILED if outcome.failure else DONE)
        for line in outcome.failure.splitlines():
            self.screen.print_hanging("  ", line, "dim")


def describe(outcome: Outcome) -> str:
    if outcome.failure:
        return outcome.job
    return f"{outcome.job}: {', '.join(filter(None, [outcome.exact, outcome.time]))}"
