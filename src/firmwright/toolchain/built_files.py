"""Stores files that take long to build, so that all builds share them.

A damaged file counts as missing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

DIGITS = 16
"""The number of hexadecimal digits of a digest in a file's name."""


def find_kept(folder: Path, name: str, suffix: str) -> Path | None:
    """Return the file that is stored under a name, or None if the file is missing or damaged."""
    paths = sorted(folder.glob(f"{name}-{'?' * DIGITS}{suffix}"))
    return next((path for path in paths if path == name_result(path, folder, name, suffix)), None)


def keep(unfinished: Path, folder: Path, name: str, suffix: str) -> Path:
    """Store a file under a name. Several processes may call this function at once."""
    return unfinished.replace(name_result(unfinished, folder, name, suffix))


def name_result(file: Path, folder: Path, name: str, suffix: str) -> Path:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:DIGITS]
    return folder / f"{name}-{digest}{suffix}"
