"""The folders of a generated C project."""

from __future__ import annotations

from pathlib import Path

NETWORK = "network"
"""What a program of the user's needs of the network; it compiles without the other folders."""
BOARD = "board"
"""Start-up code, linker script, HAL, drivers of accelerators."""
DEMO = "demo"
"""The program that runs the network on samples from the console."""
FREESTANDING = "freestanding"
"""What stands in for C's library where the toolchain has none."""
LOADER = "loader"
"""What finds the network in its slot, where it is an image of its own."""

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
