"""Computes the digest of firmwright's templates that a stage uses."""

from __future__ import annotations

import hashlib
from functools import cache

from firmwright.folders import TOP

from .freshness import file_digest

TEMPLATES = TOP / "templates"


@cache
def find_templates(patterns: tuple[str, ...]) -> list[str]:
    """Return firmwright's template files that match the patterns."""
    return sorted({str(path) for pattern in patterns for path in TEMPLATES.glob(pattern)})


@cache
def digest_templates(patterns: tuple[str, ...]) -> str:
    """Return the digest of firmwright's template files that match the patterns.

    One digest is faster, because doit would compare each file again for each recipe.
    """
    names = (path.removeprefix(f"{TEMPLATES}/") for path in find_templates(patterns))
    lines = [f"{name} {file_digest(TEMPLATES / name)}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
