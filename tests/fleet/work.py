"""Functions that workers run instead of builds."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from firmwright.cluster.order import Order, make_order
from firmwright.report.outcomes import Outcome


def make_orders(folder: Path, count: int) -> list[Order]:
    """Return orders of jobs 0, 1, …, which share a folder."""
    return [
        make_order(str(number), "", [folder / "no.yaml"], folder, ()) for number in range(count)
    ]


def describe() -> dict[str, str]:
    return {"package": "1.0"}


def fail_some(order: Order, _watched: int) -> Outcome:
    """Fail the jobs 7 and 250 with an error of the user, and 499 with an unexpected error."""
    if order.name in ("7", "250"):
        return Outcome(order.name, "recipe.yaml:1:1: a mistake")
    if order.name == "499":
        raise ZeroDivisionError("nobody expects this")
    return Outcome(order.name, sha256=order.name, exact="exact")


def die_once(order: Order, _watched: int) -> Outcome:
    """Kill the worker at the first try of a job."""
    mark = Path(order.folder, order.name)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(order.name, exact="exact")


def die_at_zero(order: Order, _watched: int) -> Outcome:
    """Kill the worker at each try of job 0."""
    if order.name == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(order.name, exact="exact")


def name_worker(order: Order, _watched: int) -> Outcome:
    """Return the process that runs a job."""
    return Outcome(order.name, exact=str(os.getpid()))


def wait_behind_first(order: Order, _watched: int) -> Outcome:
    """Finish job 0 at once; the other jobs are slow."""
    if order.name != "0":
        time.sleep(600)
    return Outcome(order.name, exact="exact")
