"""The cache that the environment names. What it gives is checked; where it fails, it says so."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from firmwright.documents.sizes import parse_size
from firmwright.errors import UserError

from .entry import CachedFile, CacheError, Entry, decode, describe_files, encode
from .stores import BucketStore, FolderStore, PatientStore, Store, WebStore

PLACE = "FIRMWRIGHT_CACHE"
"""A folder, or an address that begins with ``http://`` or ``https://``."""
ROLE = "FIRMWRIGHT_CACHE_ROLE"
"""``write`` (the default), or ``read``: results are taken, none are kept."""
LIMIT = "FIRMWRIGHT_CACHE_SIZE"
"""The most that a folder holds, as in ``10 GiB``."""

DEFAULT_LIMIT = "10 GiB"
LARGEST_ENTRY = 1 << 24
"""Bytes; one of 100,000 files is smaller."""


class SharedCache:
    """Gives and keeps the results of stages. CacheError where it cannot."""

    def __init__(self, store: Store, writable: bool) -> None:
        self.store = PatientStore(store)
        self.writable = writable

    def restore(self, key: str, folder: Path) -> Entry | None:
        """Write the files of a key's entry into an empty folder; None if there is no entry.

        Raises CacheError for an entry or a file that is not what was kept.
        """
        data = self.store.read(f"ac/{key}", LARGEST_ENTRY)
        if data is None:
            return None
        entry = decode(data, key)
        for file in entry.files:
            content = self.read_file(file)
            if content is None:  # an old file may go before its entry
                return None
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if file.executable:
                path.chmod(path.stat().st_mode | 0o111)
        return entry

    def read_file(self, file: CachedFile) -> bytes | None:
        content = self.store.read(f"cas/{file.sha256}", file.size)
        if content is None:
            return None
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise CacheError(f"cas/{file.sha256} ({file.path}) is not what its digest says")
        return content

    def keep(self, key: str, folder: Path, notes: Sequence[str]) -> None:
        """Keep a stage's folder; nothing where the cache is only read."""
        if not self.writable:
            return
        entry = Entry(key, describe_files(folder), tuple(notes))
        for file in entry.files:
            self.store.write(f"cas/{file.sha256}", (folder / file.path).read_bytes())
        self.store.write(f"ac/{key}", encode(entry))


def open_cache() -> SharedCache | None:
    """Return the cache that the environment names, if any; UserError for one that cannot be."""
    place = os.environ.get(PLACE, "")
    if not place:
        return None
    role = os.environ.get(ROLE) or "write"
    if role not in ("read", "write"):
        raise UserError(f"{ROLE}: '{role}' is neither 'read' nor 'write'")
    return SharedCache(open_store(place), role == "write")


def open_store(place: str) -> Store:
    scheme, separator, _ = place.partition("://")
    if scheme in ("http", "https") and separator:
        return WebStore(place)
    if separator:
        try:
            return BucketStore(place)
        except UserError as error:
            raise UserError(f"{PLACE}: {error}") from None
    text = os.environ.get(LIMIT) or DEFAULT_LIMIT
    try:
        limit = parse_size(text)
    except ValueError as error:
        raise UserError(f"{LIMIT}: {error}") from None
    return FolderStore(Path(place), limit)
