"""Guards standard output and error: control characters, closed pipes, output of C++ libraries."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firmwright.errors import to_printable


class GuardedStream:
    """Writes text with escaped control characters, and has all other attributes of the stream."""

    def __init__(self, stream: Any) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(to_printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard(stream: Any) -> Any:
    """Return a guarded stream, or None if the stream is closed."""
    return stream if stream is None or isinstance(stream, GuardedStream) else GuardedStream(stream)


def find_unguarded(stream: Any) -> Any:
    """Return the stream for a program that itself writes escape sequences."""
    return stream.unguarded if isinstance(stream, GuardedStream) else stream


def guard_output() -> None:
    sys.stdout, sys.stderr = guard(sys.stdout), guard(sys.stderr)


def end_with_reader() -> None:
    """Let this process end without a message when its output is closed.

    Processes with connections must not call this function, because a broken connection would also
    end the process.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


STANDARD_ERROR = 2

LIBRARY_LOG = ".libraries.log"
"""The name of the file, which is in the folder of doit's state."""


@contextmanager
def keep_library_output(log: Path) -> Iterator[None]:
    """Redirect standard error of libraries to a file, but not standard error of Python.

    Forked processes also write to this file.
    """
    sys.stderr.flush()
    terminal = os.dup(STANDARD_ERROR)
    python = sys.stderr
    with log.open("w") as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
    try:
        with os.fdopen(os.dup(terminal), "w", buffering=1, errors="backslashreplace") as stream:
            if is_standard_error(python):
                sys.stderr = guard(stream)
            yield
    finally:
        sys.stderr = python
        os.dup2(terminal, STANDARD_ERROR)
        os.close(terminal)


def is_standard_error(stream: object) -> bool:
    """Return whether a stream is the standard error of this process, and not a test's stream."""
    try:
        return bool(stream.fileno() == STANDARD_ERROR)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return False
