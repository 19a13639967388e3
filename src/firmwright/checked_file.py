"""Reads and writes files of local caches with a SHA-256. A damaged file counts as missing."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path


def read_checked(path: Path) -> bytes | None:
    """Return the content of a file, or None if the file is missing or damaged."""
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return content if digest == compute_digest(content) else None


def write_checked(path: Path, content: bytes) -> None:
    """Write a file completely or not at all. Errors of the file system are ignored."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(compute_digest(content) + b"\n" + content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def compute_digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode("ascii")
