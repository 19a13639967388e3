"""Runs jobs on this machine, in copies of this process, which has imported their modules."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from pkgutil import resolve_name
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import TypeVar

from firmwright.child import follow_lifeline, hold_lifeline
from firmwright.process import STREAMS, describe
from firmwright.system import CAN_FORK, accept_signals, hold_signals

from .order import (
    POLL,
    ClusterError,
    Order,
    ReadOutput,
    Stop,
    Watcher,
    prepare_folder,
    read_output,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Memory:
    """The data that a job passes to later jobs, as text.

    ``report`` runs in the job. The argument has the names of the modules that were imported before
    the job. ``learn`` runs in the process that starts the jobs.
    """

    report: Callable[[Collection[str]], str]
    learn: Callable[[str], None]


NO_MEMORY = Memory(lambda _: "", lambda _: None)


@dataclass(frozen=True)
class Copy:
    """A running job: its process, and the job's ``lane`` on the screen.

    ``files`` are the job's output, its errors, and its report for the memory.
    """

    order: Order
    lane: str
    process: BaseProcess
    files: tuple[Path, Path, Path]

    def end(self) -> None:
        """End the job and its remaining programs, such as the follower of its lifeline.

        The follower is in the job's process group. Therefore the system cannot reuse the group's
        number.
        """
        assert self.process.pid is not None
        self.process.join(0)
        self.process.kill()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()

    def read(self) -> str:
        """Return the output of an ended job.

        Raises UserError with the job's errors if the job failed.
        """
        code = self.process.exitcode
        assert code is not None
        texts = (file.read_text("utf-8", "replace") for file in self.files[:2])
        return read_output(self.order, CompletedProcess(self.order.program, code, *texts))


def run_here(
    orders: Sequence[Order],
    finish: Callable[[Order, ReadOutput], T],
    most: int,
    watcher: Watcher,
    stop: Stop,
    memory: Memory = NO_MEMORY,
) -> Iterator[T]:
    """Yield the result of each job when the job ends. At most ``most`` jobs run at once.

    ``finish`` makes the result from the job and its output. Jobs end if this process ends or if the
    caller stops. Raises ClusterError if ``stop`` has a reason.
    """
    if not CAN_FORK:
        raise ClusterError(
            "a fleet needs fork, which this operating system does not have; run `firmwright build` "
            "for each recipe"
        )
    waiting, running = deque(enumerate(orders)), dict[int, Copy]()
    lanes = [str(number) for number in range(most)]
    with TemporaryDirectory(prefix="firmwright-jobs-") as scratch, hold_lifeline() as watched:
        ended: list[Copy] = []
        try:
            while waiting or running or ended:
                while waiting and lanes and not stop.reason:
                    number, order = waiting.popleft()
                    files = name_files(Path(scratch), number)
                    copy = start(order, lanes.pop(), watched, files, memory)
                    watcher.start(order.name, copy.lane)
                    running[copy.process.sentinel] = copy
                # The next jobs already run while this process reads the results.
                for copy in ended:
                    yield finish(copy.order, copy.read)
                if stop.reason:
                    raise ClusterError(stop.reason)
                ended = [running.pop(end) for end in wait_for_ends(running)]
                for copy in ended:
                    copy.end()
                    lanes.append(copy.lane)
                    if report := copy.files[2].read_text("utf-8"):
                        memory.learn(report)
        finally:
            for copy in running.values():
                copy.end()


def wait_for_ends(running: Collection[int]) -> list[int]:
    """Return the jobs that end within the interval ``POLL``."""
    if not running:
        return []
    return [end for end in connection.wait([*running], POLL) if isinstance(end, int)]


def name_files(scratch: Path, number: int) -> tuple[Path, Path, Path]:
    """Return the paths of a job's output, of its errors, and of its report."""
    output, errors, report = (scratch / f"{number}.{kind}" for kind in ("out", "err", "report"))
    return output, errors, report


def start(
    order: Order, lane: str, watched: int, files: tuple[Path, Path, Path], memory: Memory
) -> Copy:
    """Start a job in a copy of this process, which writes its output to ``files``."""
    for file in files:
        file.write_bytes(b"")
    process = get_context("fork").Process(target=live, args=(order, watched, files, memory))
    gc.freeze()  # without this, a garbage collection in the copy would copy all objects
    with hold_signals():
        process.start()
    return Copy(order, lane, process, files)


def live(order: Order, watched: int, files: Sequence[Path], memory: Memory) -> None:
    """Run the program of a job in this process, and exit with the exit code of the program."""
    accept_signals()
    os.setsid()
    follow_lifeline(watched)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(files[:2], 1):
        os.dup2(os.open(file, os.O_WRONLY), number)
    for number, name in enumerate(STREAMS[1:], 1):  # a screen may use the old streams
        setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
    os.chdir(order.root)
    sys.argv = [order.program, order.folder, *order.arguments]
    known = set(sys.modules)
    try:
        prepare_folder(order)
        code = resolve_name(order.program)(order.folder, order.arguments, order.text)
        files[2].write_text(memory.report(known), "utf-8")
    except Exception as error:
        code = describe(error)
    sys.exit(code)
