"""Writes a file completely, or leaves it unchanged."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import UserError


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file completely or not at all. Return whether the file has changed.

    Raises UserError if the file cannot be written.
    """
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        unfinished = path.with_name(f".{path.name}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {error.strerror}; check the permissions and the free space"
        ) from None
    return True
