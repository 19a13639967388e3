"""What tells firmwright's own code from any other: by it, a change runs every stage again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from firmwright.folders import PACKAGE, TOP

CODE_FOLDERS = (PACKAGE, TOP / "tasks")

CODE_SUFFIXES = frozenset({".c", ".json", ".py", ".yaml"})
"""Suffixes of the package's files that decide about results: rules are YAML, schemas JSON."""


@cache
def code_digest(places: tuple[Path, ...]) -> str:
    """Digest the code in folders, so that changing any of it runs every stage again."""
    total = hashlib.sha256()
    for place in places:
        for name in sorted(list_code(place)):
            total.update(name.encode() + b"\0")
            with open(os.path.join(place, name), "rb", buffering=0) as file:  # noqa: PTH118, PTH123
                total.update(file.read())
    return total.hexdigest()


def list_code(place: Path) -> Iterator[str]:
    """Yield the files of code below a folder, without following links; Path.rglob is slower."""
    for folder, _, names in os.walk(place):
        below = os.path.relpath(folder, place)
        yield from (
            os.path.join(below, name)  # noqa: PTH118
            for name in names
            if os.path.splitext(name)[1] in CODE_SUFFIXES  # noqa: PTH122
        )
