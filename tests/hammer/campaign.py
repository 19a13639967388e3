"""Runs cases one after another, each with a separate seed, until a number or a time is reached.

A finding names its case: ``--seed S --first N --count 1`` repeats it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from firmwright.pipeline import fingerprint

Case = Callable[[random.Random], str]
"""Draws a case, tries it, and returns its outcome in a word or two."""


class FindingError(Exception):
    """A result that must not happen; the text describes it."""


class OutOfTime(BaseException):
    """A case is too slow. A handler of Exception does not catch this."""


def run_campaign(module: str, try_case: Case, arguments: Sequence[str], cases: int) -> int:
    """Try as many cases as the arguments state, and print the outcomes; 1 if one is a finding."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--count", type=int, default=cases, help=f"cases (default: {cases})")
    parser.add_argument("--seconds", type=float, help="stop after that time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    began = time.monotonic()
    outcomes: Counter[str] = Counter()
    for number in count(options.first):
        used = time.monotonic() - began
        if number == options.first + options.count or used > (options.seconds or float("inf")):
            break
        try:
            outcomes[try_case(random.Random(f"{options.seed}/{number}"))] += 1
        except KeyboardInterrupt:
            break
        except FindingError as finding:
            outcomes["findings"] += 1
            again = f"python -m {module} --seed {options.seed} --first {number} --count 1"
            print(f"{finding}\n  again: {again}\n", flush=True)
    message = ", ".join(f"{times:,} {outcome}" for outcome, times in outcomes.most_common())
    used = time.monotonic() - began
    print(f"{outcomes.total():,} cases of seed {options.seed} in {used:.0f} s: {message}")
    return int("findings" in outcomes)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise OutOfTime if the block needs more time."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def asks_compiler() -> bool:
    """Return whether an installed compiler is asked for its files before any stage runs.

    The user's cache folder contains the answer, and a recipe only selects the compiler.
    """
    frame = sys._getframe()
    while frame.f_code.co_filename != fingerprint.__file__:
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return True


class Watch:
    """Records the files that this process writes, and its programs and connections, outside of
    folders."""

    CHANGES = frozenset(("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink",
                         "os.chmod", "os.chown", "os.truncate"))  # fmt: skip
    WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    STARTS = frozenset(("subprocess.Popen", "os.exec", "os.system", "os.posix_spawn"))

    def __init__(self, *folders: Path) -> None:
        self.folders = (*(folder.resolve() for folder in folders), Path(os.devnull))
        self.active = False
        self.noted: list[str] = []
        sys.dont_write_bytecode = True  # imported modules are not a finding
        sys.addaudithook(self.look)

    @contextmanager
    def during_case(self) -> Iterator[None]:
        """Raise FindingError after a case that did anything outside."""
        self.noted.clear()
        self.active = True
        try:
            yield
        finally:
            self.active = False
        self.check()

    def check(self) -> None:
        if self.noted:
            raise FindingError("outside of its folder: " + "; ".join(self.noted))

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in self.STARTS:
            if not asks_compiler():
                self.noted.append(f"{event} {arguments[0]}")
        elif event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
            self.noted.append(f"{event} {arguments[1]}")
        elif event in self.CHANGES or (event == "open" and arguments[2] & self.WRITING):
            self.note(event, arguments[0])

    def note(self, event: str, place: Any) -> None:
        if isinstance(place, int):
            return
        path = Path(os.fsdecode(place)).resolve()
        if not any(path.is_relative_to(folder) for folder in self.folders) and not asks_compiler():
            self.noted.append(f"{event} {path}")


def list_processes(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    found = (line.split() for line in listed.stdout.splitlines())
    return [int(process) for process, state in found if not state.startswith("Z")]
