"""Runs a fleet on one machine: a scheduler in this process, and workers in other processes."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from threading import Event, Thread
from typing import Any

from firmwright.child import make_command, make_environment
from firmwright.cluster.jobs import POLL, ClusterError, Stop, silence_dask
from firmwright.cluster.lifeline import hold_lifeline
from firmwright.errors import first_line

from .local_worker import served_file

WORKER = "firmwright.fleet.local_worker"
LOG = "workers.log"

FILES, FILES_PER_WORKER = 40, 4
"""Descriptors that this process may need. In fleets of 1 to 8 workers it used 28 + 3 per worker."""

STARTS = 3
"""After this number of failed starts in a row, a worker is not started again."""


@contextmanager
def start_cluster(workers: int, folder: Path, stop: Stop) -> Iterator[str]:
    """Yield the address of a scheduler with workers; a worker that dies is started again.

    Workers are in separate sessions, so ctrl-C does not reach them. Their output is written to
    a file in ``folder``. ``stop`` gets the reason if no worker can start. Raises ClusterError if
    the scheduler cannot start, and if the limit of open files is too low.
    """
    check_open_files(workers)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="firmwright-fleet-") as scratch,
        start_scheduler() as cluster,
        (folder / LOG).open("wb") as log,
    ):
        ending = Event()
        lost: list[str] = []

        def keep(name: str, watched: int) -> None:
            served, failed = served_file(scratch, name), 0
            while not ending.is_set():
                served.unlink(missing_ok=True)
                worker = Popen(
                    make_command(WORKER, str(watched), address, name, scratch),
                    env=make_environment(os.environ), pass_fds=(watched,),
                    start_new_session=True, stdin=DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
                wait_or_kill(worker, ending)
                failed = 0 if served.exists() else failed + 1
                if failed == STARTS:
                    lost.append(name)
                    if len(lost) == workers and not stop.reason:
                        stop.reason = explain_failure(folder / LOG)
                    return

        address = cluster.scheduler_address
        with hold_lifeline() as watched:
            threads = [Thread(target=keep, args=[str(n), watched]) for n in range(workers)]
            for thread in threads:
                thread.start()
            try:
                yield address
            finally:
                ending.set()
        for thread in threads:
            thread.join()


def wait_or_kill(worker: Popen[bytes], ending: Event) -> None:
    """Wait for the end of a worker, and kill it if ``ending`` is set.

    A group of processes that is stopped (SIGSTOP) does not notice that its lifeline ends.
    """
    while worker.poll() is None:
        if ending.wait(POLL):
            worker.kill()
            worker.wait()


def check_open_files(workers: int) -> None:
    """Raise ClusterError if the limit of open files is too low for a fleet.

    A scheduler without a free descriptor cannot accept a connection: it tries again without end.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES + FILES_PER_WORKER * workers
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise ClusterError(
            f"the limit of open files ({limit}) is too low for workers={workers}: "
            f"expected at least {needed}; raise it by 'ulimit -n {needed}', or use fewer workers"
        )


def start_scheduler() -> Any:
    """Return a cluster of dask without workers, which only this machine reaches."""
    from distributed import LocalCluster

    silence_dask()
    try:
        return LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
        )
    except (OSError, RuntimeError) as error:
        raise ClusterError(f"the scheduler cannot start: {first_line(error)}") from None


def explain_failure(log: Path) -> str:
    """Return why no worker starts: the last line that one of them printed."""
    lines = log.read_text("utf-8", "replace").split("\n")
    last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
    return f"no worker can start{last}; see {log}"
