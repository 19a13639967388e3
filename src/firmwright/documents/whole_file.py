"""Files that commands write beside recipes: whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, data: bytes) -> bool:
    """Write a file, whole or not at all; tell whether it is another than before."""
    if path.is_file() and path.read_bytes() == data:
        return False
    unfinished = path.with_name(f".{path.name}.partial")
    unfinished.write_bytes(data)
    unfinished.replace(path)
    return True
