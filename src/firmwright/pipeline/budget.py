"""Checks that every part of the recipe's budget can be measured on the platform."""

from __future__ import annotations

from firmwright.errors import Diagnostic, DiagnosticError

from .job import Job


def check_measurable(job: Job) -> None:
    """Raise DiagnosticError for a budget that cannot be measured on this platform."""
    budget = job.recipe.budget
    if budget is None:
        return
    if not job.has_firmware:
        message = f"the platform '{job.platform.name}' links no firmware here that could be held"
        raise DiagnosticError([make_diagnostic(job, "", f"{message} to it; leave the key out")])
    if budget.cycles is not None and not job.counts_instructions:
        runs = "no firmware runs"
        if job.is_run:
            runner = "a board" if job.recipe.run.board else f"'{job.emulator}'"
            runs = f"{runner} counts no instructions"
        message = f"{runs} on '{job.platform.name}', so no cycles can be compared with it"
        raise DiagnosticError([make_diagnostic(job, "cycles", f"{message}; leave the key out")])


def make_diagnostic(job: Job, key: str, message: str) -> Diagnostic:
    """Return a message at a key of the budget, or at the whole budget."""
    pointer = ("budget", key) if key else ("budget",)
    return job.recipe.make_diagnostic(pointer, message)
