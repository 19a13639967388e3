"""A build in a process and a folder of its own, by the command ``firmwright``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from firmwright.errors import UserError


def build_separately(
    recipe: Path,
    start: Path,
    outdir: Path,
    words: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
    wrapper: Sequence[str] = (),
) -> None:
    """Build a recipe as if the command were given in ``start``; ``words`` follow the recipe.

    ``environment`` and ``umask`` are this process's where they are not given; ``wrapper`` are the
    words of a program that runs the command behind them. Raises UserError with all that the build
    says where it fails.
    """
    done = subprocess.run(
        [
            *(*wrapper, sys.executable, "-m", "firmwright.cli", "build", "--outdir", str(outdir)),
            *(os.path.relpath(recipe, start), *words),
        ],
        cwd=start, env=environment, umask=umask, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        told = (done.stdout + done.stderr).strip()
        raise UserError(f"the build failed with code {done.returncode}:\n{told}")
