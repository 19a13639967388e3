"""Uses the cache that the user names: checks its results, and reports its failures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from firmwright.documents.quantities import parse_size
from firmwright.errors import Diagnostic, DiagnosticError, UserError

from .entry import CachedFile, CacheError, Entry, decode, describe_files, encode
from .settings import ADDRESS, LIMIT, ROLE, read_settings
from .stores import BucketStore, FolderStore, PatientStore, Store, WebStore

DEFAULT_LIMIT = "10 GiB"
ROLES = ("both", "read", "write")
LARGEST_ENTRY = 1 << 24
"""The maximum size of an entry in bytes. An entry of 100,000 files is smaller."""


class SharedCache:
    """Reads and stores the results of stages. ``role`` can exclude reading or storing.

    Failures are CacheErrors.
    """

    def __init__(self, store: Store, role: str = "both") -> None:
        self.store = PatientStore(store)
        self.is_read = role != "write"
        self.is_written = role != "read"

    def find_entry(self, key: str) -> str:
        return self.store.find(f"ac/{key}")

    def read_entry(self, key: str) -> Entry | None:
        """Return the entry of a key, or None if the entry is missing.

        Raises CacheError if the entry is damaged.
        """
        data = self.store.read(f"ac/{key}", LARGEST_ENTRY) if self.is_read else None
        if data is None:
            return None
        try:
            return decode(data, key)
        except CacheError as error:
            raise CacheError(f"{self.find_entry(key)}: {error}") from None

    def restore(self, key: str, folder: Path) -> Entry | None:
        """Write the files of a key's entry into an empty folder. Return the entry, or None.

        None means that there is no entry. Raises CacheError if the entry or a file is damaged.
        """
        entry = self.read_entry(key)
        for file in entry.files if entry else ():
            content = self.read_file(file)
            if content is None:  # a cleanup may remove a file before its entry
                return None
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if file.executable:
                path.chmod(path.stat().st_mode | 0o111)
        return entry

    def read_file(self, file: CachedFile) -> bytes | None:
        name = f"cas/{file.sha256}"
        content = self.store.read(name, file.size)
        if content is None:
            return None
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise CacheError(f"{self.store.find(name)}: {file.path} does not match its digest")
        return content

    def keep(self, key: str, folder: Path, notes: Sequence[str]) -> None:
        """Store a stage's folder, unless the cache is read only."""
        if not self.is_written:
            return
        entry = Entry(key, describe_files(folder), tuple(notes))
        for file in entry.files:
            self.store.write(f"cas/{file.sha256}", (folder / file.path).read_bytes())
        self.store.write(f"ac/{key}", encode(entry))


ONE_SLASH = re.compile("(https?|s3):/(?!/)")
"""The wrong start of an address. No name of a folder begins in this form."""


def open_cache() -> SharedCache | None:
    """Return the cache that the user names, or None if the user names no cache.

    Raises UserError if the cache cannot be opened.
    """
    said = read_settings()
    if not said.get(ADDRESS):
        return None
    role = said.get(ROLE) or ROLES[0]
    if role not in ROLES:
        raise refuse(ROLE, f"'{role}' is not a role; expected {', '.join(ROLES)}")
    return SharedCache(open_store(said[ADDRESS], said.get(LIMIT) or DEFAULT_LIMIT), role)


def open_store(address: str, size: str) -> Store:
    """Return the store at an address. ``size`` limits a folder, as in ``10 GiB``."""
    scheme, separator, rest = address.partition("://")
    if ONE_SLASH.match(address):
        raise refuse(ADDRESS, f"an address begins with two slashes: {scheme.partition(':')[0]}://…")
    if scheme in ("http", "https") and separator:
        if not is_address(address):
            raise refuse(
                ADDRESS, f"'{address}' is not an address such as http://cache.example:8080/team"
            )
        return WebStore(address)
    if separator and not rest:
        raise refuse(
            ADDRESS,
            f"the address '{address}' is not complete; expected an address such as {scheme}://team",
        )
    if separator:
        try:
            return BucketStore(address)
        except UserError as error:
            raise refuse(ADDRESS, str(error)) from None
    try:
        limit = parse_size(size)
    except ValueError as error:
        raise refuse(LIMIT, str(error)) from None
    folder = Path(address).expanduser()
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise refuse(ADDRESS, f"'{path}' is not a folder; choose another location")
    return FolderStore(folder, limit)


def is_address(text: str) -> bool:
    """Return whether a text has a host, an optional port, and no query."""
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        return False


def refuse(name: str, message: str) -> DiagnosticError:
    return DiagnosticError([Diagnostic(name, 0, 0, message)])
