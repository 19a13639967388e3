"""Does the work of a fleet's worker: it builds a job and reports the outcome."""

from __future__ import annotations

from pathlib import Path

from firmwright.bundle.outcome import Outcome, read_outcome
from firmwright.cluster.order import Order, run_program
from firmwright.errors import UserError


def build(order: Order, watched: int) -> Outcome:
    """Build a job in a separate process, and return the outcome; no error is raised."""
    try:
        bundle = Path(run_program(order, watched).splitlines()[-1])
        return read_outcome(order.name, bundle)
    except UserError as error:
        return Outcome(order.name, str(error))
    except OSError as error:
        return Outcome(order.name, f"{error.filename}: {error.strerror or error}")
