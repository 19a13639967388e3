"""The folder that holds what doit knows, and the build folders of the recipes."""

from __future__ import annotations

import os
from pathlib import Path

from doit import get_var

from firmwright.errors import UserError

STATE_FILE = ".doit.db"
"""What doit knows of every task, in the build root."""


def find_build_root() -> Path:
    """Return the folder that holds doit's state: ``outdir=``, else ``build``."""
    return Path(get_var("outdir", "build"))


def prepare_build_root() -> Path:
    root = find_build_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = (
            f"cannot make the build folder {root}: {error.strerror}; choose another with outdir="
        )
        raise UserError(message) from None
    if not os.access(root, os.W_OK):
        raise UserError(f"cannot write to the build folder {root}; choose another with outdir=")
    return root
