"""Builds one bundle in a copy of a process or as a program, and prints the bundle's path."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from firmwright.cluster.lifeline import follow_lifeline
from firmwright.cluster.order import LOG
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.network_jobs import leave_out_members
from firmwright.pipeline.recipe_arguments import enter_repository
from firmwright.pipeline.snapshot import find_finished_bundle


def main(folder: str, arguments: Sequence[str], _text: str = "") -> int:
    """Build one bundle, print its path, and return the exit code.

    ``arguments`` are options of ``doit run`` and ``name=value``. The stages are reported in a log
    in ``folder``, unless ``folder`` is empty. Errors are printed to standard error.
    """
    enter_repository()
    set_variables(arguments)
    bundle = find_finished_bundle()
    if bundle is not None and all("=" in argument for argument in arguments):
        print(Path(bundle).resolve())
        return 0
    from firmwright.tasks import dodo  # this import reads the variables

    jobs = leave_out_members(dodo.get_jobs())
    if len(jobs) != 1:
        print(f"expected one bundle, found {len(jobs)}; name one recipe and one platform",
              file=sys.stderr)  # fmt: skip
        return 1
    log = f"{folder}/{LOG}" if folder else os.devnull
    options = [argument for argument in arguments if "=" not in argument]
    variables = [argument for argument in arguments if "=" in argument]
    failed = run_tasks(dodo, ["run", "--output-file", log, *options, "build", *variables])
    if not failed:
        print(jobs[0].bundle.resolve())
    return failed


if __name__ == "__main__":
    watched, folder, *arguments = sys.argv[1:]
    if watched:
        follow_lifeline(int(watched))
    sys.exit(main(folder, arguments))
