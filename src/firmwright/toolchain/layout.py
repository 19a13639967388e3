"""The folders of a generated C project."""

from __future__ import annotations

from pathlib import Path

NETWORK = "network"
"""The files that a user's program needs of the network; they compile without the other folders."""
BOARD = "board"
"""Start-up code, linker script, HAL, drivers of accelerators."""
DEMO = "demo"
"""The program that runs the network on samples from the console."""
FREESTANDING = "freestanding"
"""Stands in for C's library if the toolchain has none."""
LOADER = "loader"
"""Finds the network in its slot, if it is a separate image."""

FOLDERS = (BOARD, DEMO, FREESTANDING, LOADER, NETWORK)
"""The folders whose sources are linked to the firmware, in the linker's order."""

SOURCE_SUFFIXES = (".c", ".S")


def list_sources(project: Path) -> list[str]:
    """Return the sources of a project by their paths in it, in the order of linking."""
    return [
        f"{folder}/{path.name}"
        for folder in FOLDERS
        for path in sorted((project / folder).glob("*"))
        if path.suffix in SOURCE_SUFFIXES
    ]
