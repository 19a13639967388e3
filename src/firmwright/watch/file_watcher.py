"""A sleep that ends early where Linux tells of a change beside files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inotify_simple import INotify


class FileWatcher:
    """Sleeps until something changes in the folders of files, or for a time where none tells.

    Not every file system tells, and only so many folders are told of: the files have the word.
    One alarm serves all waits: to close it takes the system up to 20 ms.
    """

    def __init__(self) -> None:
        self.inotify: INotify | None = None
        if sys.platform == "linux":
            from inotify_simple import INotify

            with suppress(OSError):  # the user has as many as the system grants
                self.inotify = INotify()

    def __enter__(self) -> FileWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self.inotify:
            self.inotify.close()

    def listen_beside(self, paths: Iterable[str]) -> None:
        """Have the next sleeps end at a change in these folders, or in those of these files."""
        if not self.inotify:
            return
        from inotify_simple import flags, masks

        changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | masks.MOVE
        for folder in {p if os.path.isdir(p) else os.path.dirname(p) for p in paths}:  # noqa: PTH112, PTH120
            with suppress(OSError):  # it is missing, or one too many
                self.inotify.add_watch(folder, changes)

    def sleep(self, seconds: float) -> None:
        if self.inotify:
            self.inotify.read(int(seconds * 1000))
        else:
            time.sleep(seconds)
