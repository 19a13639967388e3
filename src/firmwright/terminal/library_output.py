"""Redirects the output of C++ libraries: TVM's warnings do not concern a user's network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .guard import guard

STANDARD_ERROR = 2

LIBRARY_LOG = ".libraries.log"
"""The file's name, in the folder that contains doit's state."""


@contextmanager
def keep_library_output(log: Path) -> Iterator[None]:
    """Redirect standard error to a file, except for Python's; also in forked processes."""
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
    """Return whether a stream is this process's standard error, not one of a test."""
    try:
        return bool(stream.fileno() == STANDARD_ERROR)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return False
