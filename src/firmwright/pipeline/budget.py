"""Checks that every part of the recipe's budget can be measured on the platform."""

from __future__ import annotations

from firmwright.errors import Diagnostic, DiagnosticError

from .job import Job


def check_measurable(job: Job) -> None:
    """Raise DiagnosticError if a part of the budget cannot be measured on the platform."""
    budget = job.recipe.budget
    if budget is None:
        return
    if not job.has_firmware:
        message = (
            f"this build does not link firmware for '{job.platform.name}', so its size is unknown"
        )
        raise DiagnosticError([make_diagnostic(job, "", f"{message}; remove the key")])
    diagnostics = [
        make_diagnostic(job, key, f"{reason}; {remedy}")
        for key in ("instructions", "cycles", "latency", "energy")
        if getattr(budget, key) is not None
        for reason, remedy in [explain_unknown(job, key)]
        if reason
    ]
    if budget.stack is not None and not job.platform.stack:
        reason = f"the platform '{job.platform.name}' states no stack"
        diagnostics.append(make_diagnostic(job, "stack", f"{reason}; remove the key"))
    if diagnostics:
        raise DiagnosticError(diagnostics)


def explain_unknown(job: Job, key: str) -> tuple[str, str]:
    """Return the reason why a time is unknown on the platform, and a remedy.

    The reason and the remedy are empty if the time is known.
    """
    name, remedy = job.platform.name, "remove the key"
    if not job.is_run:
        return f"no emulator or board runs the firmware of '{name}'", remedy
    if job.recipe.run.board and job.unmeasured_by and key != "instructions":
        return f"a board measures no cycles with `{job.unmeasured_by}`", remedy
    if not job.counts_instructions and (key == "instructions" or not job.measures_cycles):
        runner = "a board" if job.recipe.run.board else f"the emulator '{job.emulator}'"
        return f"{runner} does not count instructions on '{name}'", remedy
    if key == "instructions":
        return "", ""
    if not job.counts_cycles and not job.measures_cycles:
        reason = "the platform states no cycle table"
        if job.platform.cycles is not None:
            reason = f"the emulator '{job.emulator}' does not apply the cycle table"
        return f"the cycles on '{name}' are unknown: {reason}", "use `instructions`"
    if key == "latency" and job.clock is None:
        return f"the platform '{name}' states no clock", "add `clock: 64 MHz` to the recipe"
    if key == "energy" and job.platform.energy is None:
        advice = "add `energy`, the pJ per cycle, to a platform file of your board"
        return f"the platform '{name}' states no energy", advice
    return "", ""


def make_diagnostic(job: Job, key: str, message: str) -> Diagnostic:
    """Return a message for a key of the budget, or for the whole budget if ``key`` is empty."""
    pointer = ("budget", key) if key else ("budget",)
    return job.recipe.make_diagnostic(pointer, message)
