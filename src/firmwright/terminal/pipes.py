"""Handles output to another program that may not read all of it, such as ``doit list | head``."""

from __future__ import annotations

import signal


def end_with_reader() -> None:
    """Let this process end without a message when its output is closed.

    Do not use it in processes with connections: a broken connection would end them, too.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
