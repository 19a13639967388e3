"""Defines doit's tasks, which run every recipe of the command line through every stage.

A repository's ``dodo.py`` is ``from firmwright.tasks.dodo import *``. The command ``firmwright``
runs these tasks if the repository has no such file.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit.exceptions import TaskFailed

from firmwright import run_log
from firmwright.errors import UserError
from firmwright.pipeline.build_root import STATE_FILE, find_build_root, prepare_build_root
from firmwright.pipeline.freshness import ContentChecker
from firmwright.pipeline.recipe_arguments import (
    RECIPES,
    find_recipes,
    list_names,
    name_build,
    read_platforms,
)
from firmwright.pipeline.runners import install_runners
from firmwright.process import catch_signals
from firmwright.system import count_cores
from firmwright.terminal.guard import guard_output
from firmwright.terminal.reporter import StageReporter

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job

# All other imports are late, because an up-to-date build creates no tasks.

guard_output()  # the commands of doit print file names and errors

NO_RECIPE = f"no recipe: name one (recipe=my.yaml) or put some into {RECIPES}/"
"""The error of `doit build` without arguments in a repository without recipes."""


@cache
def get_jobs() -> list[Job]:
    """Return the jobs to build. A user error ends the program before any task runs."""
    from firmwright.pipeline.command_line import load_jobs

    from .pipeline import NETWORKS_PIPELINE, PIPELINE

    try:
        return load_jobs(PIPELINE, NETWORKS_PIPELINE)
    except UserError as error:
        run_log.note(str(error))
        print(error, file=sys.stderr)
        sys.exit(1)


def get_network_jobs() -> list[Job]:
    return [job for job in get_jobs() if not job.members]


def refuse_empty_build() -> TaskFailed:
    here = ", ".join(sorted(list_names([Path()])))
    return TaskFailed(f"{NO_RECIPE}; here are: {here}" if here else NO_RECIPE)


def task_build() -> Iterator[dict[str, Any]]:
    """Yield the task of each recipe. `doit list` and `doit help build` show the recipes."""
    from firmwright.pipeline import missing_programs, recipe_lock
    from firmwright.pipeline.command_line import VARIABLES

    names = " ".join(map(name_build, get_jobs()))
    variables = " ".join(f"{name}=" for name in VARIABLES)
    doc = f"build the bundle of each recipe: {names or 'none'}; optional arguments: {variables}"
    if not names:
        yield {"basename": "build", "actions": [refuse_empty_build], "doc": doc}
        return
    yield {"basename": "build", "name": None, "doc": doc}
    yield from missing_programs.make_tasks(get_jobs())
    # Builds with missing programs are first, so they fail before other builds run for minutes.
    for job in sorted(get_jobs(), key=lambda job: not missing_programs.preceding_tasks(job)):
        preceding = [*missing_programs.preceding_tasks(job), *recipe_lock.preceding_tasks(job)]
        yield {
            "basename": "build",
            "name": name_build(job),
            "actions": None,
            # This list defines the order of the stages, because doit knows only their inputs.
            "task_dep": [*preceding, *job.list_tasks()],
        }


def task_lock() -> Iterator[dict[str, Any]]:
    """Yield the tasks that write or check a recipe's lock, such as lock:digits-rv32-bare."""
    from firmwright.pipeline import recipe_lock

    yield from recipe_lock.make_tasks(get_jobs())


def task_further_builds() -> Iterator[dict[str, Any]]:
    """Yield the tasks of the commands that run builds, such as tune:digits-rv32-bare."""
    from .commands import COMMANDS

    for command in COMMANDS:
        yield from command.make_tasks(get_jobs())


def task_stages() -> Iterator[dict[str, Any]]:
    """Yield every stage of every recipe: model:digits … bundle:digits-rv32-bare.

    One creator yields all stages. doit rejects a creator with the name task_run, because `doit run`
    is a command. The task itself exists: `doit run run:digits-rv32-bare`.
    """
    from firmwright.pipeline.task import make_tasks

    yield from make_tasks([each for job in get_jobs() for each in job.all_jobs])


def refuse_lost_command(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["auto"]:
        print(
            "doit no longer has `auto`; run `firmwright watch`, which builds after every change",
            file=sys.stderr,
        )
        sys.exit(1)


def count_processes() -> int:
    """Return the number of parallel stages: one per core for several builds, or 0 for one build.

    If the number is 0, doit uses only its main process. Most stages of one build wait for each
    other, so a second process would only import all modules again.
    """
    try:
        builds = len(find_recipes()) * (len(read_platforms()) or 1)
    except UserError:  # get_jobs reports the error
        builds = 0
    return min(builds, count_cores()) if builds > 1 else 0


# Imports and TVM's graphs create many permanent objects. By default, Python searches for cycles
# after every 700th new object. These searches need a twentieth of the time of a small build. These
# limits make Python search after 20,000 new objects. A search of older objects needs at least 0.1
# s, and runs only after 200 such searches.
gc.set_threshold(20_000, 200)

refuse_lost_command(sys.argv[1:])
catch_signals("; finished stages are kept")
install_runners()

try:
    prepare_build_root()
except UserError as mistake:
    print(mistake, file=sys.stderr)
    sys.exit(1)

DOIT_CONFIG = {
    "default_tasks": ["build"],
    "backend": "firmwright",
    "dep_file": str(find_build_root() / STATE_FILE),
    "check_file_uptodate": ContentChecker,
    "reporter": StageReporter,
    "num_process": count_processes(),
}
