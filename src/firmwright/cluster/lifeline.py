"""A pipe by which a process ends with the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def hold_lifeline() -> Iterator[int]:
    """Yield the end of the pipe that processes inherit (``pass_fds``); then they end."""
    watched, held = os.pipe()
    try:
        yield watched
    finally:
        os.close(held)
        os.close(watched)


def follow_lifeline(watched: int) -> None:
    """From now on, end this process and its group when nobody holds the other end any more."""

    def follow() -> None:
        os.read(watched, 1)
        os.killpg(0, signal.SIGKILL)

    Thread(target=follow, daemon=True).start()
