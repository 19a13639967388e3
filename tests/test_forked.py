"""A function in a copy of the process: its result, its errors, and a message for each early end."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest

from firmwright import forked
from firmwright.errors import UserError
from firmwright.forked import end_copies, run_in_copy
from firmwright.system import limit_memory


def double(data: bytes) -> bytes:
    print("a library prints this")
    return 2 * data


def test_results_of_any_size_come_back_from_several_threads() -> None:
    given = [bytes([number]) * 1_000_000 for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(lambda data: run_in_copy("double", double, data), given)]
    assert results == [2 * data for data in given]


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "kind"),
    [(UserError("x"), UserError), (MemoryError("x"), MemoryError), (KeyError("x"), RuntimeError)],
)
def test_errors_are_raised_here(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="x"):
        run_in_copy("it", fail, error)


FORKS = {
    "a copy": ("firmwright.forked", "run_in_copy('it', int)"),
    "watch": ("firmwright.watch", "WarmProcess(int).build()"),
    "a job": ("firmwright.cluster.local", "start(ORDER, 'x', 0, FILES, NO_MEMORY)"),
}
"""The module of each fork, and a call that forks."""

INTERRUPTED = """\
import os
import signal
from pathlib import Path
from types import SimpleNamespace

from {module} import *

ORDER = SimpleNamespace(program="sys:exit", root=".", folder=".", arguments=(), environment={{}})
FILES = Path("output"), Path("errors"), Path("report")
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("fork", FORKS)
def test_ctrl_c_during_a_fork_is_not_lost(fork: str, tmp_path: Path) -> None:
    module, call = FORKS[fork]
    program = INTERRUPTED.format(module=module, call=call)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_a_copy_that_is_interrupted_at_its_start_ends_at_a_word() -> None:
    call = "run_in_copy('it', time.sleep, 5)"
    program = INTERRUPTED.format(module="firmwright.forked", call=call)
    program += "end_copies()\nprint(os.WTERMSIG(os.wait()[1]))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"interrupted\n{int(signal.SIGKILL)}\n", done.stderr


def call_exit() -> None:
    """Write a message and end the process, as a C library may do."""
    os.write(2, b"no room for code\n")
    ctypes.CDLL(None)["exit"](1)


def allocate() -> None:
    limit_memory(100 << 20)
    bytearray(500 << 20)


ENDS = {
    "exit": (call_exit, "it ended with exit code 1: no room for code"),
    "abort": (os.abort, "it ended with SIGABRT"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "it ended with SIGKILL"),
    "leave": (lambda: os._exit(0), "it ended with exit code 0"),
}


@pytest.mark.parametrize("way", ENDS)
def test_an_early_end_has_a_message(way: str) -> None:
    function, message = ENDS[way]
    with pytest.raises(UserError, match=f"^the library: {message}$"):
        run_in_copy("the library", function)


def test_memory_is_limited_in_the_copy_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError):
        run_in_copy("it", allocate)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_copies_end_at_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked._CopyState, "ending", False)
    Timer(0.5, end_copies).start()
    with pytest.raises(UserError, match="it ended with SIGKILL"):
        run_in_copy("it", time.sleep, 600)
    with pytest.raises(UserError, match="it ended with SIGKILL"):
        run_in_copy("it", time.sleep, 600)


THREADS = """
import os, subprocess
from concurrent.futures import ThreadPoolExecutor
from firmwright.forked import end_with_copies
from firmwright.process import catch_signals

def wait(_number):
    with subprocess.Popen(["sleep", "600"]) as program, end_with_copies(program):
        os.write(1, b"%d\\n" % program.pid)  # print() of two threads can join two lines
        program.wait()

catch_signals()
with ThreadPoolExecutor(2) as pool:
    [*pool.map(wait, range(2))]
"""


def test_programs_that_threads_wait_for_end_with_the_process() -> None:
    command = [sys.executable, "-c", THREADS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        programs = [int(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""  # the programs hold the pipe open until they end
    assert process.returncode == 128 + signal.SIGTERM
    for program in programs:
        with pytest.raises(ProcessLookupError):
            os.kill(program, 0)


PROGRAM = """
import os, sys, time
from firmwright.forked import run_in_copy

def stay():
    os.write({descriptor}, b"%d\\n" % os.getpid())
    time.sleep(600)

run_in_copy("it", stay)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_copy_ends_with_the_process_that_made_it(number: int, tmp_path: Path) -> None:
    receiver, sender = os.pipe()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(descriptor=sender))
    with subprocess.Popen([sys.executable, program], pass_fds=(sender,)) as process:
        os.close(sender)
        with os.fdopen(receiver) as expected:
            assert int(expected.readline()) != process.pid
            process.send_signal(number)
            assert expected.read() == ""  # the copy holds the pipe open until it ends
    assert process.returncode == -number


def test_many_copies_of_a_process_with_threads_end() -> None:
    work: Callable[[int], int] = abs
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda n: run_in_copy("it", work, -n), range(200))) == sum(range(200))
