"""A scheduler in this process, and workers beside it: a fleet on one machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from threading import Event, Thread

from firmwright.child import run_python
from firmwright.cluster.lifeline import hold_lifeline

WORKER = "firmwright.fleet.local_worker"
LOG = "workers.log"


@contextmanager
def start_cluster(workers: int, folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler with workers; one that dies is started again.

    They are in sessions of their own, where ctrl-C does not reach them. What they print goes into
    a file in ``folder``.
    """
    from distributed import LocalCluster

    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="firmwright-fleet-") as scratch,
        LocalCluster(
            n_workers=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
        ) as cluster,
        (folder / LOG).open("wb") as log,
    ):
        ending = Event()

        def keep(name: str, watched: int) -> None:
            while not ending.is_set():
                run_python(
                    *(WORKER, str(watched), address, name, scratch),
                    pass_fds=(watched,), start_new_session=True,
                    stdin=DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip

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
