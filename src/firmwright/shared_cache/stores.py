"""Where entries and files lie: in a folder, behind HTTP, or in a bucket.

All have bazel-remote's layout: ``ac/KEY`` is an entry, ``cas/SHA256`` a file by its digest.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from firmwright import web
from firmwright.errors import UserError, first_line

from .entry import CacheError

LONGEST_ANSWER = 1 << 20
"""Bytes that a server may say to a file that it was given."""

KEPT_SHARE = 0.9
"""What is left of a full folder's limit, so that not each build removes something."""


class Store(Protocol):
    def read(self, name: str, most: int) -> bytes | None:
        """Return what is kept as ``ac/…`` or ``cas/…``, None if nothing is.

        CacheError if it has more than ``most`` bytes, or cannot be read.
        """

    def write(self, name: str, data: bytes) -> None:
        """Keep bytes; CacheError where that fails."""


class FolderStore:
    """A folder that several builds use at once. What was not used for longest goes first.

    ``limit`` is in bytes.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.is_pruned = False

    def read(self, name: str, most: int) -> bytes | None:
        path = self.find(name)
        try:
            with path.open("rb") as stream:
                data = stream.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"{path}: {error.strerror}") from None
        if len(data) > most:
            raise CacheError(f"{path}: larger than the {most:,} bytes that it should have")
        with suppress(OSError):  # a cache that is only read may have another owner
            os.utime(path)
        return data

    def write(self, name: str, data: bytes) -> None:
        path = self.find(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
                unfinished.write(data)
            Path(unfinished.name).replace(path)
        except OSError as error:
            raise CacheError(f"{path}: {error.strerror}") from None
        if not self.is_pruned:
            self.is_pruned = True
            self.prune()

    def find(self, name: str) -> Path:
        kind, _, digest = name.partition("/")
        return self.folder / kind / digest[:2] / digest

    def prune(self) -> None:
        """Remove what was not used for longest where the folder holds more than the limit."""
        files = sorted(self.list_files())
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in files:
            if total <= KEPT_SHARE * self.limit:
                return
            path.unlink(missing_ok=True)
            total -= size

    def list_files(self) -> Iterator[tuple[int, int, Path]]:
        """Yield when each file was used last (ns), its bytes, and its path."""
        for path in self.folder.glob("*/*/*"):
            with suppress(OSError):  # another build removed it
                status = path.stat()
                yield status.st_mtime_ns, status.st_size, path


class WebStore:
    """A server that takes ``GET`` and ``PUT``: bazel-remote, or any with WebDAV.

    One that failed once is not asked again: each stage would wait for it.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.session = web.open_session()
        self.is_down = False

    def read(self, name: str, most: int) -> bytes | None:
        try:
            return None if self.is_down else web.download(self.session, self.find(name), most)
        except web.WebError as error:
            if error.status == 404:
                return None
            self.is_down = True
            raise CacheError(f"{self.find(name)}: {error}") from None

    def write(self, name: str, data: bytes) -> None:
        if self.is_down:
            return
        try:
            answer, _ = web.ask(self.session, "PUT", self.find(name), LONGEST_ANSWER, data)
            if not answer.ok:
                raise web.refuse(answer)
        except web.WebError as error:
            self.is_down = True
            raise CacheError(f"{self.find(name)}: {error}") from None

    def find(self, name: str) -> str:
        return f"{self.address}/{name}"


class BucketStore:
    """What fsspec opens by its address: ``s3://bucket/team``, and other stores that it knows.

    One that failed once is not asked again. Raises UserError for an address that nothing opens.
    """

    def __init__(self, address: str) -> None:
        # Imported late: few caches are buckets, and the package is an extra.
        try:
            from fsspec.core import url_to_fs

            self.files, self.root = url_to_fs(address)
        except ImportError as error:
            remedy = "python -m pip install 'firmwright[s3]'"
            raise UserError(f"'{address}' needs a package: {error}; {remedy}") from None
        except ValueError as error:
            raise UserError(f"'{address}' cannot be opened: {error}") from None
        self.address = address.rstrip("/")
        self.is_down = False

    def read(self, name: str, most: int) -> bytes | None:
        if self.is_down:
            return None
        try:
            with self.files.open(f"{self.root}/{name}", "rb") as stream:
                data: bytes = stream.read(most + 1)
        except FileNotFoundError:
            return None
        except Exception as error:  # stores raise all kinds
            raise self.fail(name, error) from None
        if len(data) > most:
            place = f"{self.address}/{name}"
            raise CacheError(f"{place}: larger than the {most:,} bytes that it should have")
        return data

    def write(self, name: str, data: bytes) -> None:
        if self.is_down:
            return
        try:
            self.files.pipe_file(f"{self.root}/{name}", data)
        except Exception as error:
            raise self.fail(name, error) from None

    def fail(self, name: str, error: Exception) -> CacheError:
        self.is_down = True
        return CacheError(f"{self.address}/{name}: {first_line(error)}")
