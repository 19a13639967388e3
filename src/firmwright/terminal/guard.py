"""Guards standard output and error against control characters in text from outside."""

from __future__ import annotations

import sys
from typing import Any

from firmwright.errors import to_printable


class GuardedStream:
    """Writes text with escaped control characters; other attributes come from the stream."""

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
    """Return the stream for a program that writes escape sequences itself."""
    return stream.unguarded if isinstance(stream, GuardedStream) else stream


def guard_output() -> None:
    """Guard standard output and error of this process."""
    sys.stdout, sys.stderr = guard(sys.stdout), guard(sys.stderr)
