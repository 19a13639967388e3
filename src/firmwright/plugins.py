"""Finds the entry points that installed packages have registered."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

TFLITE_OPERATORS = "firmwright.tflite_operators"
"""The group of modules that read TFLite files with a vendor's custom operators."""


@cache
def find_plugins(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    found: EntryPoints = read_plugins().select(group=group)
    return found


@cache
def read_plugins() -> Any:
    """Return all entry points; before Python 3.12, the type of the result differs.

    The search reads a file of every installed package.
    """
    return entry_points()


def list_tflite_vendors() -> list[EntryPoint]:
    """Return the entry points of :data:`TFLITE_OPERATORS` in the order of their names."""
    return sorted(find_plugins(TFLITE_OPERATORS), key=lambda point: (point.name, point.value))
