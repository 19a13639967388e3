"""Output that goes to another program, which may not read all of it: ``doit list | head``."""

from __future__ import annotations

import signal


def end_with_reader() -> None:
    """Have this process end when nobody reads its output any more, without a message.

    Not for what downloads or talks to other processes: a broken connection would end it too.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
