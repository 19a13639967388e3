"""What workers do in place of builds, where a build does not matter."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from firmwright.fleet.matrix import FleetJob
from firmwright.fleet.outcome import Outcome
from firmwright.fleet.worker import Order


def make_orders(folder: Path, count: int) -> list[Order]:
    """Return orders of jobs 0, 1, …, which share a folder."""
    jobs = [FleetJob(str(number), f"{number}.yaml", {}) for number in range(count)]
    return [Order(job, str(folder), str(folder), {}, "") for job in jobs]


def describe() -> dict[str, str]:
    return {"package": "1.0"}


def fail_some(order: Order) -> Outcome:
    """Fail the jobs 7 and 250 by a mistake, and 499 by an error that nobody expects."""
    if order.job.name in ("7", "250"):
        return Outcome(order.job.name, "recipe.yaml:1:1: a mistake")
    if order.job.name == "499":
        raise ZeroDivisionError("nobody expects this")
    return Outcome(order.job.name, sha256=order.job.name, exact="exact")


def die_once(order: Order) -> Outcome:
    """Kill the worker when a job is tried for the first time."""
    mark = Path(order.outdir, order.job.name)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(order.job.name, exact="exact")


def die_at_zero(order: Order) -> Outcome:
    """Kill the worker whenever job 0 is tried."""
    if order.job.name == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(order.job.name, exact="exact")


def name_worker(order: Order) -> Outcome:
    """Say which process does a job."""
    return Outcome(order.job.name, exact=str(os.getpid()))


def wait_behind_first(order: Order) -> Outcome:
    """Finish job 0 at once; the others take long."""
    if order.job.name != "0":
        time.sleep(600)
    return Outcome(order.job.name, exact="exact")
