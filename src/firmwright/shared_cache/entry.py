"""What a cache keeps of a stage: the digests of its files, and what it had to say.

An entry is an ``ActionResult`` of Bazel's Remote Execution API (v2), so that the servers that
builds by Bazel share, bazel-remote among them, take it for one of theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError

from firmwright.errors import UserError

PACKAGE = "build.bazel.remote.execution.v2"

FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Digest": (("hash", 1, "string"), ("size_bytes", 2, "int64")),
    "OutputFile": (("path", 1, "string"), ("digest", 2, "Digest"), ("is_executable", 4, "bool")),
    "ActionResult": (("output_files", 2, "OutputFile*"), ("stdout_raw", 5, "bytes")),
}
"""The messages' fields that are used here: name, number and type, a ``*`` behind it if repeated.

Source: build/bazel/remote/execution/v2/remote_execution.proto.
"""


class CacheError(UserError):
    """A cache that is not there, or gives something else than what was kept in it.

    ``is_down`` tells that nothing else can be read either.
    """

    def __init__(self, message: str, is_down: bool = False) -> None:
        self.is_down = is_down
        super().__init__(message)


@dataclass(frozen=True)
class CachedFile:
    path: str
    """Below the stage's folder, with ``/``."""
    sha256: str
    size: int
    """Bytes."""
    executable: bool


@dataclass(frozen=True)
class Entry:
    """The result of one stage. ``key`` is the digest of what decides about it."""

    key: str
    files: tuple[CachedFile, ...]
    notes: tuple[str, ...]


def describe_files(folder: Path) -> tuple[CachedFile, ...]:
    """Return the files of a stage's folder, sorted."""
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
    result = load_message_class()()
    for file in entry.files:
        output = result.output_files.add()
        output.path = file.path
        output.digest.hash = file.sha256
        output.digest.size_bytes = file.size
        output.is_executable = file.executable
    told = {"key": entry.key, "notes": entry.notes, "sha256": digest_entry(entry)}
    result.stdout_raw = json.dumps(told).encode()
    return bytes(result.SerializeToString(deterministic=True))


def digest_entry(entry: Entry) -> str:
    """Return the digest of all that an entry says: a name that has changed is a damaged entry."""
    return hashlib.sha256(json.dumps(astuple(entry)).encode()).hexdigest()


def decode(data: bytes, key: str) -> Entry:
    """Return the entry of a key; CacheError if the bytes are no entry, or that of another key."""
    try:
        result = load_message_class().FromString(data)
        told = json.loads(result.stdout_raw)
        found, notes, digest = told["key"], tuple(map(str, told["notes"])), told["sha256"]
    except (DecodeError, ValueError, KeyError, TypeError):
        raise CacheError("not an entry of a stage") from None
    if found != key:
        raise CacheError("the entry of another stage")
    files = tuple(
        CachedFile(f.path, f.digest.hash, f.digest.size_bytes, f.is_executable)
        for f in result.output_files
    )
    check_paths(file.path for file in files)
    entry = Entry(key, files, notes)
    if digest != digest_entry(entry):
        raise CacheError("the entry is not what its digest says")
    return entry


def check_paths(paths: Iterable[str]) -> None:
    """Raise CacheError for a path that leads out of a folder, and for one that is there twice."""
    seen: set[str] = set()
    for path in paths:
        plain = PurePosixPath(path)
        leads_out = plain.is_absolute() or ".." in plain.parts or not plain.parts
        if leads_out or str(plain) != path or path in seen:
            raise CacheError(f"a file cannot be named {json.dumps(path)}")
        seen.add(path)


@cache
def load_message_class() -> Any:
    """Return the class ``ActionResult``; fields that are not used here are passed over."""
    file = descriptor_pb2.FileDescriptorProto(
        name="firmwright/action_result.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            described = message.field.add(name=field, number=number)
            plain = kind.removesuffix("*")
            repeated = plain != kind
            described.label = (
                FieldDescriptorProto.LABEL_REPEATED
                if repeated
                else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if plain in FIELDS:
                described.type = FieldDescriptorProto.TYPE_MESSAGE
                described.type_name = f".{PACKAGE}.{plain}"
            else:
                described.type = FieldDescriptorProto.Type.Value(f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.ActionResult"))
