"""Stores entries and files in a folder, on an HTTP server, or in a bucket.

All stores have the layout of bazel-remote: ``ac/KEY`` is an entry, and ``cas/SHA256`` is a file.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Protocol

from firmwright import web
from firmwright.errors import UserError, first_line

from .entry import CacheError

LONGEST_ANSWER = 1 << 20
"""The maximum number of bytes in a server's answer to an upload."""

KINDS = ("ac", "cas")
STORED_NAME = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{16}")
"""Matches the name of a file in a folder: a digest, or an unfinished file of a killed build."""

KEPT_SHARE = 0.9
"""The fraction of the limit that remains after a cleanup, so that the next file does not cause
another cleanup.
"""

PACE = web.Pace(connection=10.0, next=20.0, patience=20.0, rate=1 << 17)
"""The pace that a server must have. A build can compute the content instead."""
ANSWER, RATE = 0.5, 1 << 17
"""The allowed time until an answer in seconds, and the answer's minimum speed in bytes per
second.
"""
MAX_WAIT_S = 30.0
"""The total time in seconds that a build waits for a slow store."""


class Store(Protocol):
    def read(self, name: str, most: int) -> bytes | None:
        """Return the content of ``ac/…`` or ``cas/…``, or None if the content does not exist.

        Raises CacheError if the content has more than ``most`` bytes or cannot be read.
        """

    def write(self, name: str, data: bytes) -> None:
        """Store bytes. Raises CacheError if the bytes cannot be stored."""

    def find(self, name: str) -> str:
        """Return the location of an item, for a message."""


class PatientStore:
    """Wraps a store and uses it only while it works, so that a build does not wait repeatedly.

    A store that cannot be read is not used again. A slow store is also not used again, because each
    stage would wait for the store. A store that cannot be written is still read.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_read = True
        self.is_written = True
        self.waited = 0.0

    def read(self, name: str, most: int) -> bytes | None:
        if not self.is_read:
            return None
        begin = time.monotonic()
        try:
            data = self.store.read(name, most)
        except CacheError as error:
            if error.is_down:
                self.give_up()
            raise
        self.wait(name, time.monotonic() - begin, len(data or b""))
        return data

    def write(self, name: str, data: bytes) -> None:
        if not self.is_written:
            return
        begin = time.monotonic()
        try:
            self.store.write(name, data)
        except CacheError:
            self.is_written = False
            raise
        self.wait(name, time.monotonic() - begin, len(data))

    def wait(self, name: str, seconds: float, size: int) -> None:
        """Record the time of an answer. Raises CacheError if the total time is too long."""
        self.waited = max(0.0, self.waited + seconds - ANSWER - size / RATE)
        if self.waited > MAX_WAIT_S:
            self.give_up()
            problem = f"too slow by {self.waited:.0f} s"
            raise CacheError(f"{self.find(name)}: {problem}; this build does not use it again")

    def find(self, name: str) -> str:
        return self.store.find(name)

    def give_up(self) -> None:
        self.is_read = self.is_written = False


class FolderStore:
    """A folder that several builds use in parallel. The least recently used files are removed
    first.

    ``limit`` is in bytes.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.room = 0.0
        """The number of bytes that may be written before the folder is checked again."""

    def read(self, name: str, most: int) -> bytes | None:
        path = self.find_file(name)
        try:
            with open(path, "rb", opener=open_at_once) as stream:
                data = stream.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"{path}: {error.strerror}", is_down=True) from None
        if len(data) > most:
            raise CacheError(f"{path}: larger than expected ({most:,} bytes)")
        with suppress(OSError):  # the owner of a read-only cache may be another user
            os.utime(path)
        return data

    def write(self, name: str, data: bytes) -> None:
        path = self.find_file(name)
        unfinished = path.with_name(f".{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(data)  # other users can read it if the umask allows it
            unfinished.replace(path)
        except OSError as error:
            with suppress(OSError):  # if the disk is full, no part of a file stays
                unfinished.unlink()
            raise CacheError(f"{path}: {error.strerror}") from None
        self.room -= len(data)
        if self.room < 0:
            self.room = (1 - KEPT_SHARE) * self.limit
            self.prune()

    def find(self, name: str) -> str:
        return str(self.find_file(name))

    def find_file(self, name: str) -> Path:
        kind, _, digest = name.partition("/")
        return self.folder / kind / digest[:2] / digest

    def prune(self) -> None:
        """Remove the least recently used files if the folder exceeds the limit.

        Raises CacheError if the folder is still too large, because files belong to another user.
        """
        files = sorted(self.list_files())
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in files:
            if total <= KEPT_SHARE * self.limit:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size
        if total > self.limit:
            problem = f"{total:,} bytes; the maximum is {self.limit:,}, but no file can be removed"
            raise CacheError(f"{self.folder}: {problem}")

    def list_files(self) -> Iterator[tuple[int, int, Path]]:
        """Yield the last use (ns), the size (bytes) and the path of each file of the cache.

        Other files of the folder are ignored.
        """
        for kind in KINDS:
            for path in self.folder.glob(f"{kind}/??/*"):
                with suppress(OSError):  # another build removed the file
                    status = path.lstat()
                    if STORED_NAME.fullmatch(path.name) and S_ISREG(status.st_mode):
                        yield status.st_mtime_ns, status.st_size, path


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, because opening a pipe would wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class WebStore:
    """A server that supports ``GET`` and ``PUT``, such as bazel-remote or a server with WebDAV."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.session = web.open_session()

    def read(self, name: str, most: int) -> bytes | None:
        try:
            return web.download(self.session, f"{self.address}/{name}", most, PACE)
        except web.WebError as error:
            if error.status == 404:
                return None
            raise CacheError(f"{self.find(name)}: {error}", is_down=True) from None

    def write(self, name: str, data: bytes) -> None:
        try:
            answer, _ = web.ask(
                self.session, "PUT", f"{self.address}/{name}", LONGEST_ANSWER, data, pace=PACE
            )
            if not answer.ok:
                raise web.refuse(answer)
        except web.WebError as error:
            raise CacheError(f"{self.find(name)}: {error}") from None

    def find(self, name: str) -> str:
        return f"{self.address}/{name}"


class BucketStore:
    """A store that fsspec opens with its address, such as ``s3://bucket/team``.

    Raises UserError if the address cannot be opened.
    """

    def __init__(self, address: str) -> None:
        # Imported late, because few caches are buckets, and the package is an extra.
        try:
            from fsspec.core import url_to_fs

            self.files, self.root = url_to_fs(address)
        except ImportError as error:
            remedy = "python -m pip install 'firmwright[s3]'"
            raise UserError(f"'{address}' needs a package: {error}; {remedy}") from None
        except Exception as error:  # some stores connect to their server in this call
            raise UserError(
                f"'{address}' cannot be opened: {first_line(error)}; check the address"
            ) from None
        self.address = address.rstrip("/")

    def read(self, name: str, most: int) -> bytes | None:
        location = self.find(name)
        try:
            with self.files.open(f"{self.root}/{name}", "rb") as stream:
                data: bytes = stream.read(most + 1)
        except FileNotFoundError:
            return None
        except Exception as error:  # stores raise errors without a common base class
            raise CacheError(f"{location}: {first_line(error)}", is_down=True) from None
        if len(data) > most:
            raise CacheError(f"{location}: larger than expected ({most:,} bytes)")
        return data

    def write(self, name: str, data: bytes) -> None:
        try:
            self.files.pipe_file(f"{self.root}/{name}", data)
        except Exception as error:
            raise CacheError(f"{self.find(name)}: {first_line(error)}") from None

    def find(self, name: str) -> str:
        return f"{self.address}/{name}"
