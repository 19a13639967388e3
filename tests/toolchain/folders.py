"""Folders of tools that an environment variable names, for the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

GCC_NAME = "aarch64-none-linux-gnu"


def arm64_gcc_folder(folder: Path) -> Path:
    """Lay out Debian's cross compiler as Arm's toolchain is; skip the test where it is absent."""
    (folder / "bin").mkdir(parents=True)
    for tool in ("gcc", "as", "ld"):
        program = shutil.which(f"aarch64-linux-gnu-{tool}")
        if program is None:
            pytest.skip(f"aarch64-linux-gnu-{tool} is not installed")
        (folder / "bin" / f"{GCC_NAME}-{tool}").symlink_to(program)
    return folder
