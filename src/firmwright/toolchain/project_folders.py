"""Names the folders of a generated C project."""

from __future__ import annotations

from pathlib import Path

NETWORK = "network"
"""The files that a user's program needs from the network, which compile without other folders."""
BOARD = "board"
"""Start-up code, linker script, HAL and drivers of accelerators."""
DEMO = "demo"
"""The program that runs the network on samples from the console."""
FREESTANDING = "freestanding"
"""The folder that replaces a missing C library of the toolchain."""
LOADER = "loader"
"""The code that finds the network in its slot if the network is a separate image."""

FOLDERS = (BOARD, DEMO, FREESTANDING, LOADER, NETWORK)
"""The folders whose sources are linked to the firmware, in the linker's order."""

SOURCE_SUFFIXES = (".c", ".S")


def list_sources(project: Path) -> list[str]:
    """Return the paths of a project's sources, relative to the project, in link order."""
    return [
        f"{folder}/{path.name}"
        for folder in FOLDERS
        for path in sorted((project / folder).glob("*"))
        if path.suffix in SOURCE_SUFFIXES
    ]
