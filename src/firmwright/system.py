"""Wraps calls of the operating system that some systems lack.

Only this module imports fcntl, resource and inotify_simple, forks, and holds signals. Windows lacks
these functions. Therefore builds on Windows have no lock, no memory limit and no copies of the
process.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
    import resource
except ImportError:
    fcntl = resource = None  # type: ignore[assignment]

CAN_FORK = hasattr(os, "fork")

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that ends a process at once."""

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that end a process. A fork holds these signals."""


def count_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fork() -> int:
    """Return 0 in the copy of this process, and the number of the copy in this process."""
    return os.fork()


@contextmanager
def hold_signals() -> Iterator[None]:
    """Hold signals during a fork, because the exception of a handler could be lost.

    A signal may come during Python's hooks of a fork, such as the hook of ``logging``. Python then
    prints the exception and continues. The copy calls accept_signals.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def accept_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def lock_file(stream: IO[Any], wait: bool = True) -> None:
    """Lock a file until the file is closed.

    Raises BlockingIOError if another process holds the lock and ``wait`` is False. Raises OSError
    if the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def find_file_limit() -> int | None:
    """Return the maximum bytes of a file that this process may write, or None if unlimited."""
    if resource is None:
        return None
    size, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if size == resource.RLIM_INFINITY else size


def limit_memory(more: int) -> None:
    """Limit this process to ``more`` additional bytes of memory, unless its limit is lower."""
    if resource is None:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or most < soft:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


class FolderChanges:
    """Sleeps until a change in folders, or for a time if the system does not report changes.

    Some file systems report no changes, and the number of watched folders is limited. One object
    serves all waits, because closing it needs up to 20 ms.
    """

    def __init__(self) -> None:
        self.inotify: Any = None
        # The package exists only for Linux, and Linux limits the number of objects per user.
        with suppress(ImportError, OSError):
            from inotify_simple import INotify

            self.inotify = INotify()

    def __enter__(self) -> FolderChanges:
        return self

    def __exit__(self, *_: object) -> None:
        if self.inotify:
            self.inotify.close()

    def listen_beside(self, paths: Iterable[str]) -> None:
        """Make the next sleeps end after a change in these folders or these files' folders."""
        if not self.inotify:
            return
        from inotify_simple import flags, masks

        changes = flags.MODIFY | flags.ATTRIB | flags.CREATE | flags.DELETE | masks.MOVE
        folders = {p if os.path.isdir(p) else os.path.dirname(p) for p in paths}  # noqa: PTH112, PTH120
        for folder in folders:
            with suppress(OSError):  # the folder is missing, or the limit is reached
                self.inotify.add_watch(folder, changes)

    def sleep(self, seconds: float) -> None:
        if self.inotify:
            self.inotify.read(int(seconds * 1000))
        else:
            time.sleep(seconds)
