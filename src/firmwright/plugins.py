"""What installed packages have registered by entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any


@cache
def find_plugins(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    found: EntryPoints = read_plugins().select(group=group)
    return found


@cache
def read_plugins() -> Any:
    """Return all entry points: before Python 3.12 of a type of their own.

    To find them, a file of every installed package is read.
    """
    return entry_points()
