"""Runs jobs on the workers of a cluster, which must have the code and versions of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from firmwright.cluster.order import Order, ReadOutput, Stop, Watcher, run_program
from firmwright.data.fetch import MIRROR_VARIABLE
from firmwright.shared_cache.settings import read_settings
from firmwright.toolchain.build import THREADS

from .code_digest import CODE_FOLDERS, code_digest
from .command_line import NO_USER_CODE_VARIABLE
from .task import find_deciding_packages

T = TypeVar("T")

Finish = Callable[[Order, ReadOutput], T]
"""Makes the result from a job and its output. A cluster's worker imports the function."""

PASSED_ON = (MIRROR_VARIABLE, NO_USER_CODE_VARIABLE, THREADS)
"""Environment variables that remote workers receive, in addition to cache variables."""

CODE = "the code of firmwright"


def describe_worker() -> dict[str, str]:
    """Return all values that determine bundles: versions, and the digest of firmwright's code."""
    return {**find_deciding_packages(), CODE: code_digest(CODE_FOLDERS)[:12]}


def list_environment() -> dict[str, str]:
    """Return a worker's environment, in which each worker uses one thread.

    The variables include the cache settings of the user's file, because a worker may have another
    home folder.
    """
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {THREADS: "1"} | variables | read_settings()


def run_on_cluster(
    scheduler: str,
    orders: Sequence[Order],
    finish: Finish[T],
    fail: Callable[[str, str], T],
    watcher: Watcher,
    stop: Stop,
) -> Iterator[T]:
    """Yield the result of each job on the workers of a scheduler when the job ends.

    ``fail`` makes the result of a failed job from the job's name and a message. Raises ClusterError
    if the jobs cannot continue.
    """
    # Imported late, because other commands do not use a cluster.
    from firmwright.cluster.jobs import Workers, connect, run_jobs

    variables = list_environment()
    orders = [replace(order, environment=variables) for order in orders]
    with connect(scheduler) as client:
        workers = Workers(client, describe_worker, describe_worker(), watcher)
        yield from run_jobs(orders, partial(run_remotely, finish), fail, workers, stop)


def run_remotely(finish: Finish[T], order: Order, watched: int) -> T:
    return finish(order, partial(run_program, order, watched))
