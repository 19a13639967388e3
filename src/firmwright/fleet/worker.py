"""Builds a job of a fleet, and reports the outcome."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from firmwright.bundle.outcome import read_outcome
from firmwright.cluster.order import Order, ReadOutput, run_program
from firmwright.errors import UserError
from firmwright.report.outcomes import Outcome


def build(order: Order, watched: int) -> Outcome:
    """Build a job in a separate process. Return the outcome, even if the build fails."""
    return read_end(order, partial(run_program, order, watched))


def read_end(order: Order, read: ReadOutput) -> Outcome:
    """Return the outcome of a job from the output of its build, even if the build failed."""
    try:
        bundle = Path(read().splitlines()[-1])
        return read_outcome(order.name, bundle)
    except UserError as error:
        return Outcome(order.name, str(error))
    except OSError as error:
        return Outcome(order.name, f"{error.filename}: {error.strerror or error}")
