"""Runs jobs on this machine, each in a copy of this process, which has imported their modules."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import TypeVar

from firmwright.forked import accept_signals, hold_signals
from firmwright.process import STREAMS, describe

from .jobs import POLL, ClusterError, Stop, Watcher
from .lifeline import follow_lifeline, hold_lifeline
from .order import Order, ReadOutput, prepare_folder, read_output

T = TypeVar("T")

FORK = get_context("fork")


@dataclass(frozen=True)
class Copy:
    """A running job: its process, the place that the job has on the screen, and its output."""

    order: Order
    lane: str
    process: ForkProcess
    files: tuple[Path, Path]

    def end(self) -> None:
        """End the job and the programs that it has left, such as the follower of its lifeline.

        The follower is in the job's group, so the number of the group cannot be another's.
        """
        assert self.process.pid is not None
        self.process.join(0)
        self.process.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()

    def read(self) -> str:
        """Return the output of the job, which has ended; UserError with its errors."""
        code = self.process.exitcode
        assert code is not None
        texts = (file.read_text("utf-8", "replace") for file in self.files)
        return read_output(self.order, CompletedProcess(self.order.program, code, *texts))


def run_here(
    orders: Sequence[Order],
    finish: Callable[[Order, ReadOutput], T],
    most: int,
    watcher: Watcher,
    stop: Stop,
) -> Iterator[T]:
    """Yield the result of each job, in the order in which they end; at most ``most`` run at once.

    ``finish`` makes the result from the job and its output. Jobs end with this process, and if the
    caller stops. Raises ClusterError if ``stop`` has a reason.
    """
    waiting, running = deque(orders), dict[int, Copy]()
    lanes = [str(number) for number in range(most)]
    with TemporaryDirectory(prefix="firmwright-jobs-") as scratch, hold_lifeline() as watched:
        try:
            while waiting or running:
                if stop.reason:
                    raise ClusterError(stop.reason)
                while waiting and lanes:
                    copy = start(waiting.popleft(), lanes.pop(), watched, Path(scratch))
                    watcher.start(copy.order.name, copy.lane)
                    running[copy.process.sentinel] = copy
                for ended in connection.wait([*running], POLL):
                    assert isinstance(ended, int)
                    copy = running.pop(ended)
                    copy.end()
                    lanes.append(copy.lane)
                    yield finish(copy.order, copy.read)
        finally:
            for copy in running.values():
                copy.end()


def start(order: Order, lane: str, watched: int, scratch: Path) -> Copy:
    """Start a job in a copy of this process. Its output is written to files in ``scratch``."""
    files = scratch / f"{lane}.output", scratch / f"{lane}.errors"
    for file in files:
        file.write_bytes(b"")
    process = FORK.Process(target=live, args=(order, watched, files))
    with hold_signals():
        process.start()
    return Copy(order, lane, process, files)


def live(order: Order, watched: int, files: Sequence[Path]) -> None:
    """Run the program of a job in this process, and exit with its code."""
    accept_signals()
    os.setsid()
    follow_lifeline(watched)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY), number)
    for number, name in enumerate(STREAMS[1:], 1):  # a screen may use the old variables
        setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
    os.chdir(order.root)
    os.environ.update(order.environment)
    sys.argv = [order.program, order.folder, *order.arguments]
    try:
        prepare_folder(order)
        code = import_module(order.program).main(order.folder, order.arguments, order.text)
    except Exception as error:
        code = describe(error)
    sys.exit(code)
