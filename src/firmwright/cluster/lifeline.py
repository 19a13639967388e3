"""Provides a pipe that ends a process when its parent ends, even if the parent is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from firmwright.system import KILL, fork

_held: set[int] = set()
"""The pipe ends that this process holds. A forked process inherits copies of these ends."""


@contextmanager
def hold_lifeline() -> Iterator[int]:
    """Yield the pipe end for child processes (``pass_fds``), which end after the block."""
    watched, held = os.pipe()
    _held.add(held)
    try:
        yield watched
    finally:
        _held.remove(held)
        os.close(held)
        os.close(watched)


def follow_lifeline(watched: int) -> None:
    """End this process and its group as soon as no process holds the other end of the pipe.

    A separate process waits for this event, so that the group also ends if this process was killed.
    """
    for held in _held:
        os.close(held)
    _held.clear()
    if fork():
        return
    # Close all other pipes, because their readers (such as faketime) would wait for this process.
    os.closerange(0, watched)
    os.closerange(watched + 1, os.sysconf("SC_OPEN_MAX"))
    os.read(watched, 1)
    os.killpg(0, KILL)
