"""Encodes and decodes the entry of a stage in a cache: the digests of its files, and its notes.

An entry is an ``ActionResult`` of Bazel's Remote Execution API (v2). Therefore servers of Bazel,
such as bazel-remote, accept it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from firmwright.errors import UserError
from firmwright.wire_format import find_fields, find_parts, write_field

OUTPUT_FILES, STDOUT_RAW = 2, 5
PATH, DIGEST, IS_EXECUTABLE = 1, 2, 4
HASH, SIZE_BYTES = 1, 2
"""The numbers of the fields of ActionResult, OutputFile and Digest that entries use.

Source: build/bazel/remote/execution/v2/remote_execution.proto.
"""


class CacheError(UserError):
    """Raised if a cache does not exist, or returns content that differs from the stored content.

    ``is_down`` states that a read of other content would also fail.
    """

    def __init__(self, message: str, is_down: bool = False) -> None:
        self.is_down = is_down
        super().__init__(message)


@dataclass(frozen=True)
class CachedFile:
    path: str
    """The path relative to the stage's folder. The separator is ``/``."""
    sha256: str
    size: int
    """The size in bytes."""
    executable: bool


@dataclass(frozen=True)
class Entry:
    """The result of one stage. ``key`` is the digest of all inputs of the stage."""

    key: str
    files: tuple[CachedFile, ...]
    notes: tuple[str, ...]


def describe_files(folder: Path) -> tuple[CachedFile, ...]:
    return tuple(
        CachedFile(
            path.relative_to(folder).as_posix(),
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_size,
            bool(path.stat().st_mode & 0o100),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def encode(entry: Entry) -> bytes:
    record = {"key": entry.key, "notes": entry.notes, "sha256": digest_entry(entry)}
    files = (write_field(OUTPUT_FILES, encode_file(file)) for file in entry.files)
    return b"".join([*files, write_field(STDOUT_RAW, json.dumps(record).encode())])


def encode_file(file: CachedFile) -> bytes:
    digest = write_field(HASH, file.sha256.encode()) + write_field(SIZE_BYTES, file.size)
    return (
        write_field(PATH, file.path.encode())
        + write_field(DIGEST, digest)
        + write_field(IS_EXECUTABLE, file.executable)
    )


def digest_entry(entry: Entry) -> str:
    """Return the digest of an entry's whole content, which detects damaged entries."""
    return hashlib.sha256(json.dumps(astuple(entry)).encode()).hexdigest()


def decode(data: bytes, key: str) -> Entry:
    """Return the entry of a key.

    Raises CacheError if the bytes are damaged, or if the entry belongs to another key.
    """
    try:
        record = json.loads(read_bytes(data, STDOUT_RAW))
        own_key, notes, digest = record["key"], tuple(map(str, record["notes"])), record["sha256"]
        files = tuple(map(decode_file, read_all(data, OUTPUT_FILES)))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CacheError("not an entry of a stage") from None
    if own_key != key:
        raise CacheError("the entry of another stage")
    check_paths(file.path for file in files)
    entry = Entry(key, files, notes)
    if digest != digest_entry(entry):
        raise CacheError("the entry does not match its digest")
    return entry


def decode_file(data: bytes) -> CachedFile:
    digest = read_bytes(data, DIGEST)
    return CachedFile(
        read_bytes(data, PATH).decode(),
        read_bytes(digest, HASH).decode(),
        read_number(digest, SIZE_BYTES),
        bool(read_number(data, IS_EXECUTABLE)),
    )


def read_bytes(message: bytes, field: int) -> bytes:
    """Return the last value of a field, or b'' if the field is missing."""
    return [b"", *read_all(message, field)][-1]


def read_all(message: bytes, field: int) -> list[bytes]:
    spans = find_parts(BytesIO(message), (0, len(message)), field)
    return [message[start:end] for start, end in spans]


def read_number(message: bytes, field: int) -> int:
    """Return the last value of a field, or 0 if the field is missing."""
    last_value = 0
    for number, value in find_fields(BytesIO(message), (0, len(message))):
        if number == field and isinstance(value, int):
            last_value = value
    return last_value


def check_paths(paths: Iterable[str]) -> None:
    """Raise CacheError if a path leads out of a folder, or if two paths are equal."""
    seen: set[str] = set()
    for path in paths:
        plain = PurePosixPath(path)
        leads_out = plain.is_absolute() or ".." in plain.parts or not plain.parts
        if leads_out or str(plain) != path or path in seen:
            raise CacheError(f"a file cannot be named {json.dumps(path)}")
        seen.add(path)
