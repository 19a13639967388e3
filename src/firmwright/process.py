"""Controls the start and end of a process: opens streams, handles signals, reports the end."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TextIO, TypeVar

from firmwright import run_log
from firmwright.errors import UserError, first_line, to_printable
from firmwright.forked import end_copies

Result = TypeVar("Result")

STREAMS = ("stdin", "stdout", "stderr")
"""The names of the standard streams, in the order of their numbers."""

FAILED = 1
"""The exit code of a process that failed."""

FAULT_LOG = "fault.log"
"""The file in the user's cache folder with the traceback of the last fault of firmwright."""

NO_MEMORY = re.compile(
    "cannot allocate memory|bad_alloc|bad allocation|can't start new thread|failed to map segment",
    re.IGNORECASE,
)
"""Matches messages of libraries if memory has run out. The exceptions have many classes."""

ENDINGS = {
    "SIGINT": "\ninterrupted",
    "SIGTERM": "ended by SIGTERM",
    "SIGHUP": "ended by SIGHUP",
    "SIGXCPU": "ended by SIGXCPU: the limit of processor time is reached",
}
"""The signals that end a process, and the line to print for each signal."""


class StandardOutput(TextIOWrapper):
    """Standard output. An error names the stream, and later calls raise the error again."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        return self._try(partial(super().write, text))

    def flush(self) -> None:
        self._try(super().flush)

    def _try(self, work: Callable[[], Result]) -> Result:
        try:
            if self.failure is not None:
                raise self.failure
            return work()
        except OSError as error:
            error.filename = "standard output"
            self.failure = error
            raise


def open_streams() -> None:
    """Open the standard streams that are closed. Raises SystemExit if standard output is closed.

    Without this function, the next file that the process opens would get the number of a closed
    stream. Started programs would then write into that file.
    """
    closed = [name for name in STREAMS if getattr(sys, name) is None]
    for name in closed:
        setattr(sys, name, open_sink(STREAMS.index(name)))
    if "stdout" in closed:
        sys.exit("standard output is closed; to discard the output, redirect it to /dev/null")
    before = sys.__stdout__
    if before is not None and sys.stdout is before:
        sys.stdout = StandardOutput(
            os.fdopen(before.fileno(), "wb", closefd=False),
            before.encoding,
            before.errors,
            line_buffering=before.line_buffering,
            write_through=before.write_through,
        )


def open_sink(number: int) -> TextIO:
    """Open the null device as the file descriptor ``number``, and return the stream.

    Child processes inherit the descriptor.
    """
    sink = os.open(os.devnull, os.O_RDWR)
    os.dup2(sink, number)
    if sink != number:
        os.close(sink)
    return os.fdopen(number, "w" if number else "r", closefd=False)


def catch_signals(kept: str = "") -> None:
    """End this process and its copies at a signal, with one line and exit code 128 + its number.

    ``kept`` is the end of the line. A signal that is ignored, as after ``nohup``, stays ignored.
    Only ctrl-C is always caught, because the shell of a script disables this signal for programs in
    the background.
    """
    main = os.getpid()

    def stop(number: int, _frame: FrameType | None) -> None:
        end_copies()
        line = f"{ENDINGS[signal.Signals(number).name]}{kept}"
        if os.getpid() != main:  # a worker of a build passes its message to the main process
            sys.exit(f"a process of the build ended with {signal.Signals(number).name}{kept}")
        with suppress(OSError, RuntimeError):  # the terminal is closed, or a write is in progress
            print(line, file=sys.stderr, flush=True)
        if signal.Signals(number).name == "SIGHUP":
            sys.stdout = open_sink(1)
        sys.exit(128 + number)

    for name in filter(partial(hasattr, signal), ENDINGS):
        number = signal.Signals[name]
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)


def tell_end(error: Exception) -> int:
    """Print one line for an unhandled error, and return the exit code."""
    with suppress(OSError):
        sys.stdout.flush()
    sys.stdout = open_sink(1)  # Python flushes at exit, and this flush would fail again
    line = describe(error)
    if line:
        with suppress(OSError):
            run_log.note(line)
            print(to_printable(line), file=sys.stderr, flush=True)
    return FAILED


def describe(error: Exception) -> str:
    """Return the line for an error that ends a process, or '' if the output has no reader."""
    if isinstance(error, BrokenPipeError):
        return ""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
        return f"out of memory: {first_line(error)}"
    if isinstance(error, OSError):
        return f"{error.filename2 or error.filename or Path.cwd()}: {error.strerror or error}"
    return describe_fault(error)


def describe_fault(error: Exception) -> str:
    """Return the line for an unexpected error, and write its traceback to the log of faults.

    With ``debug=1``, the traceback follows the line.
    """
    # Imported late, because faults are rare.
    from firmwright.user_folders import find_cache_folder

    trace = "".join(traceback.format_exception(error))
    what = f"{type(error).__name__}: {first_line(error)}: this is a fault of firmwright"
    log = (find_cache_folder() or Path.cwd()) / FAULT_LOG
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(trace, encoding="utf-8", errors="backslashreplace")
    except OSError as failed:
        return f"{what}; please report it ({log} cannot be written: {failed.strerror})\n{trace}"
    if not run_log.shows_faults():
        run_log.note(trace)
        return f"{what}; please report it with {log}"
    return f"{what}; please report it with {log}\n{trace}"
