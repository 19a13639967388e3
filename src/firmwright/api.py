"""Provides the Python interface: ``firmwright.build`` returns the bundle of a recipe.

The build runs in a separate process, because it changes the current folder and signal handlers. The
calling program must not see these changes.
"""

from __future__ import annotations

from pathlib import Path

from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.pipeline.run_build import run_build


def build(recipe: str | Path, **variables: object) -> Bundle:
    """Build a recipe, check its bundle, and return the bundle.

    ``recipe`` is a path, relative to the current folder. ``variables`` are the variables of the
    command line (``platform="host"``, ``samples=3``, ``outdir="build/host"``). A build on the
    command line writes equal bytes. Unchanged stages do not run again. Raises UserError with the
    message that the command line prints.
    """
    arguments = [f"{name}={value}" for name, value in variables.items()]
    return read_bundle(run_build([f"recipe={recipe}", *arguments], Path.cwd()))
