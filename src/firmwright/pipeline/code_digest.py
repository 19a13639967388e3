"""Computes the digests of firmwright's code and templates.

Stages run again if a digest changes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from firmwright.folders import PACKAGE, TOP

from .freshness import file_digest

CODE_FOLDERS = (PACKAGE, TOP / "tasks")

CODE_SUFFIXES = frozenset({".c", ".cpp", ".json", ".py", ".vlt", ".yaml"})
"""The suffixes of package files that determine results. Rules are YAML, and schemas are JSON."""


@cache
def code_digest(roots: tuple[Path, ...]) -> str:
    total = hashlib.sha256()
    for root in roots:
        for name in sorted(list_code(root)):
            total.update(name.encode() + b"\0")
            with open(os.path.join(root, name), "rb", buffering=0) as file:  # noqa: PTH118, PTH123
                total.update(file.read())
    return total.hexdigest()


def list_code(root: Path) -> Iterator[str]:
    """Yield the code files below a folder without following links.

    This loop is faster than Path.rglob.
    """
    for folder, _, names in os.walk(root):
        below = os.path.relpath(folder, root)
        yield from (
            os.path.join(below, name)  # noqa: PTH118
            for name in names
            if os.path.splitext(name)[1] in CODE_SUFFIXES  # noqa: PTH122
        )


TEMPLATES = TOP / "templates"


@cache
def find_templates(patterns: tuple[str, ...]) -> list[str]:
    return sorted({str(path) for pattern in patterns for path in TEMPLATES.glob(pattern)})


@cache
def digest_templates(patterns: tuple[str, ...]) -> str:
    """Return the digest of firmwright's template files that match the patterns.

    One digest is faster, because doit would compare each file again for each recipe.
    """
    names = (path.removeprefix(f"{TEMPLATES}/") for path in find_templates(patterns))
    lines = [f"{name} {file_digest(TEMPLATES / name)}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
