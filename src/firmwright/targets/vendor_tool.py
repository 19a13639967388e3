"""Runs a vendor's tool with a few environment variables, and keeps its whole output."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.errors import UserError


def run_vendor_tool(
    command: Sequence[str], folder: Path, passed: Sequence[str], added: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a tool in a folder. ``stdout`` of the result also contains the tool's error output.

    The tool gets the environment variables of ``passed`` that are set, and all variables of
    ``added``. Raises UserError if the program cannot be started.
    """
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=kept | {**added},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UserError(
            f"{command[0]} does not run: {error.strerror or error}; check its path and permissions"
        ) from None
