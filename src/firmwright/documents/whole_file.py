"""Writes a file completely, or leaves it unchanged."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import explain_failure

WRITE_REMEDY = "check the permissions and the free space"


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file completely or not at all. Return whether the file has changed.

    Raises UserError if the file cannot be written.
    """
    with explain_failure(f"{path}: cannot be written", WRITE_REMEDY):
        if path.is_file() and path.read_bytes() == content:
            return False
        unfinished = path.with_name(f".{path.name}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return True
