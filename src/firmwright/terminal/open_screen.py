"""Chooses between plain lines and a live screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TextIO

from firmwright.progress import Progress

from .guard import find_unguarded
from .screen import Screen


def open_screen(
    stream: TextIO,
    events: Callable[[], Iterable[Progress]] = tuple,
    count: Callable[[], str] = str,
) -> Screen:
    """Return the screen that shows a build on a stream.

    ``events`` returns the progress since its last call. ``count`` returns the line below the tasks.
    """
    forced = os.environ.get("FORCE_COLOR")
    if not (stream.isatty() if forced is None else forced):
        return Screen(stream)
    # Imported late, because output to a file does not need rich.
    from .live_screen import LiveScreen

    return LiveScreen(find_unguarded(stream), events, count)
