"""Parses sizes in bytes, as recipes and platforms write them."""

from __future__ import annotations

import re
from typing import Any

_SIZE = re.compile(r"(\d+) ?(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def parse_size(size: int | str) -> int:
    """Return a size in bytes, stated as a number of bytes or as ``4 MiB`` (B, KiB, MiB, GiB)."""
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"expected a size such as 512 B, 300 KiB, 10 MiB or 2 GiB, found {size!r}")
    return int(match[1]) * _UNITS[match[2]]


def read_sizes(value: Any) -> Any:
    """Return a description with every size in bytes."""
    if isinstance(value, dict):
        return {key: read_sizes(part) for key, part in value.items()}
    return parse_size(value) if isinstance(value, str) and _SIZE.fullmatch(value) else value
