"""Finds tools that are installed as a folder, such as Arm's and TI's compilers.

An environment variable names the folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firmwright.errors import UserError


@dataclass(frozen=True)
class ToolFolder:
    """An installed folder of tools, and the files in the folder that a build calls or links."""

    path: Path
    files: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return the first 16 digits of the SHA-256 of the files, in the order of ``files``."""
        total = hashlib.sha256()
        for name in self.files:
            total.update(hashlib.sha256((self.path / name).read_bytes()).digest())
        return total.hexdigest()[:16]


def find_tool_folder(variable: str, files: Sequence[str]) -> ToolFolder | None:
    """Return the folder that an environment variable names, or None if the variable is not set.

    ``files`` are the paths of files that the folder must contain. Raises UserError with the missing
    files, because an incomplete installation is an error.
    """
    stated = os.environ.get(variable)
    if not stated:
        return None
    folder = Path(stated).expanduser().absolute()
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        what = "is not a folder" if not folder.is_dir() else f"has no file {', '.join(missing)}"
        raise UserError(
            f"{variable}={stated} {what}; set {variable} to the folder of the whole installation, "
            "or leave it unset"
        )
    return ToolFolder(folder, tuple(files))
