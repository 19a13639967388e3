"""Runs a worker on this machine, in a separate program that ends with its fleet."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from firmwright.cluster.lifeline import follow_lifeline


def served_file(folder: str, name: str) -> Path:
    """Return the file by which a worker shows that it serves."""
    return Path(folder, f"{name}.served")


async def serve(scheduler: str, name: str, folder: str) -> None:
    """Do jobs, one at a time, until the scheduler ends; ``folder`` is for files of dask.

    A connection to a worker allows any code to run, so only this machine can connect to it.
    """
    from distributed import Worker

    async with Worker(
        scheduler, name=name, nthreads=1, memory_limit=0, local_directory=folder,
        host="127.0.0.1", dashboard_address="127.0.0.1:0", dashboard=False,
    ) as worker:  # fmt: skip
        served_file(folder, name).touch()
        await worker.finished()


if __name__ == "__main__":
    watched, scheduler, name, folder = sys.argv[1:]
    follow_lifeline(int(watched))
    asyncio.run(serve(scheduler, name, folder))
