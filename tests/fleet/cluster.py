"""A dask cluster that is already running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Cluster:
    """A scheduler and workers in separate processes, until ``stack`` ends."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.stack = stack
        self.file = folder / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.scheduler = self.start("dask_scheduler", *options)

    def add(self, name: str, path: str = "", *, restarts: bool = False) -> subprocess.Popen[bytes]:
        """Start a worker; it searches the folder ``path`` first for packages.

        A worker that dies starts again if ``restarts`` is true.
        """
        nanny = "--nanny" if restarts else "--no-nanny"
        options = ("--nthreads", "1", "--no-dashboard", nanny, "--name", name)
        return self.start("dask_worker", *options, path=path)

    def start(self, program: str, *options: str, path: str = "") -> subprocess.Popen[bytes]:
        paths = [path, str(ROOT), str(ROOT / "src")]
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}",
             "--scheduler-file", str(self.file), *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    @property
    def address(self) -> str:
        while self.scheduler.poll() is None:
            with suppress(OSError, ValueError):  # the file is missing or incomplete
                address: str = json.loads(self.file.read_text())["address"]
                return address
            time.sleep(0.05)
        raise RuntimeError("the scheduler has ended")
