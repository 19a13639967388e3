"""Calls functions in copies of this process, so that a library cannot end a build.

A copy is forked, so it starts in milliseconds and imports no modules.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any, NoReturn, TypeVar

from firmwright.errors import UserError, describe_exit
from firmwright.system import CAN_FORK, ENDING, KILL, accept_signals, fork, hold_signals

Result = TypeVar("Result")

PAUSE = 0.5
"""The interval in seconds at which a copy checks that its parent process still runs."""

_forking = Lock()
_copies: set[int] = set()


class _CopyState:
    """The state of this process. ``ending`` is True as soon as the process ends.

    After that, its threads must not start a process.
    """

    ending = False


def run_in_copy(what: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a function that is called in a copy of this process.

    Raises the function's UserError, MemoryError or OSError, and RuntimeError for its other errors.
    Raises UserError if the copy ends early. The message begins with ``what`` and contains the last
    line that the copy printed. Several threads may call this function at once. The function is
    called in this process if the system has no fork.
    """
    if not CAN_FORK:
        return function(*arguments)
    mark = os.urandom(16)
    with _forking:  # without this lock, a copy that another thread forks would keep the pipe open
        receiver, sender = os.pipe()
        parent = os.getpid()
        with hold_signals():
            copy = fork()
            if not copy:
                os.close(receiver)
                _live_as_copy(parent, sender, mark, function, arguments)
            _add(copy)
        os.close(sender)
    try:
        with os.fdopen(receiver, "rb") as stream:
            printed, succeeded, answer = stream.read().partition(mark)
    except BaseException:
        os.kill(copy, KILL)
        raise
    finally:
        _copies.discard(copy)
        code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if code or not succeeded:
        lines = printed.decode("utf-8", "replace").split("\n")
        last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
        raise UserError(f"{what}: it ended with {describe_exit(code)}{last}")
    error, result = pickle.loads(answer)
    if error is not None:
        raise error
    returned: Result = result
    return returned


@contextmanager
def end_with_copies(program: subprocess.Popen[Any]) -> Iterator[None]:
    """Make :func:`end_copies` also kill a running program for which a thread waits."""
    _add(program.pid)
    try:
        yield
    finally:
        _copies.discard(program.pid)


def _add(process: int) -> None:
    _copies.add(process)
    if _CopyState.ending:
        os.kill(process, KILL)


def end_copies() -> None:
    """Kill all copies and programs of this process, also copies and programs that start later.

    Threads that wait for a copy or a program continue.
    """
    _CopyState.ending = True
    for copy in [*_copies]:
        with suppress(ProcessLookupError):
            os.kill(copy, KILL)


def _live_as_copy(
    parent: int,
    sender: int,
    mark: bytes,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> NoReturn:
    """Send the mark, then (None, result) or (error, None). The pipe also carries the output."""
    try:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        accept_signals()
        faulthandler.disable()
        for stream in (1, 2):
            os.dup2(sender, stream)
        _leave_at_exit()
        end_with(parent)
        with os.fdopen(sender, "wb") as pipe:
            pipe.write(mark + pickle.dumps(_call(function, arguments)))
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    try:
        return None, function(*arguments)
    except (UserError, MemoryError, OSError) as error:
        return error, None
    except Exception as error:
        return RuntimeError(str(error)), None


def _leave_at_exit() -> None:
    """Make C's exit() skip the handlers of libraries, which wait for threads that a copy lacks."""
    libc = ctypes.CDLL(None)
    libc["__cxa_atexit"](libc["_exit"], ctypes.c_void_p(1), None)


def end_with(parent: int) -> None:
    """End this process as soon as its parent process has ended."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(PAUSE)
        os._exit(1)

    Thread(target=wait, daemon=True).start()
