"""The Python interface: ``firmwright.build`` gives the bundle of a recipe.

The build runs in a process of its own, this module as a program: it changes folder and signals,
and a program that calls it must not notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from firmwright.bundle.bundle import Bundle, read_bundle
from firmwright.errors import UserError
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.recipe_words import enter_repository


def build(recipe: str | Path, **variables: object) -> Bundle:
    """Build a recipe and return its bundle, read and checked.

    ``variables`` are those of the command line (``platform="host"``, ``samples=3``, ``outdir``).
    It is the same build: what has not changed does not run again. Raises UserError with the
    message that the command line prints.
    """
    words = [f"{name}={value}" for name, value in variables.items()]
    command = [sys.executable, "-m", "firmwright.api", f"recipe={recipe}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(done.stderr.strip())
    return read_bundle(Path(done.stdout.splitlines()[-1]))


def main(words: list[str]) -> int:
    """Build what the words name and print the path of the bundle; return the exit code."""
    enter_repository()
    set_variables(words)
    from firmwright.tasks import dodo  # it reads the variables while it is imported

    failed = run_tasks(dodo, ["run", "--output-file", os.devnull, "build", *words])
    jobs = dodo.get_jobs()
    if not failed and len(jobs) != 1:
        print("this gives no bundle, or several; name one recipe and one platform", file=sys.stderr)
        failed = 1
    if not failed:
        print(jobs[0].bundle.resolve())
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
