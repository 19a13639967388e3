"""The task file: every recipe that the command line names, through every stage.

A repository's ``dodo.py`` is ``from firmwright.tasks.dodo import *``; the command ``firmwright``
runs these tasks where there is none.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

from firmwright.errors import UserError
from firmwright.pipeline import command_line, lock
from firmwright.pipeline.freshness import ContentChecker
from firmwright.pipeline.job import Job
from firmwright.pipeline.task import make_tasks
from firmwright.tasks import PIPELINE
from firmwright.terminal.reporter import StageReporter


@cache
def get_jobs() -> list[Job]:
    """Return what is to be built; a user's mistake ends the program here, before any task."""
    try:
        return command_line.load_jobs(PIPELINE)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


def task_build() -> Iterator[dict[str, Any]]:
    """Yield the task of each recipe. `doit list` and `doit help build` show what there is."""
    names = " ".join(job.recipe.name for job in get_jobs())
    variables = " ".join(f"{name}=" for name in command_line.VARIABLES)
    doc = f"build the bundle of each recipe: {names}; what may follow: {variables}"
    yield {"basename": "build", "name": None, "doc": doc}
    for job in get_jobs():
        yield {
            "basename": "build",
            "name": job.recipe.name,
            "actions": None,
            "task_dep": [*lock.preceding_tasks(job), job.task_name(job.last_stage)],
        }


def task_lock() -> Iterator[dict[str, Any]]:
    """Yield the tasks that write a recipe's lock, or compare with it: lock:digits-rv32-bare."""
    yield from lock.make_tasks(get_jobs())


def task_stages() -> Iterator[dict[str, Any]]:
    """Yield every stage of every recipe: model:digits … bundle:digits-rv32-bare.

    One creator for all, for doit refuses one of the name task_run: `doit run` is a command.
    The task is there all the same: `doit run run:digits-rv32-bare`.
    """
    yield from make_tasks([each for job in get_jobs() for each in job.all_jobs])


def stop_on_interrupt(_signal: int, _frame: FrameType | None) -> None:
    """End at ctrl-C with one line; what is finished stays finished."""
    if os.getpid() == MAIN_PROCESS:
        print("\ninterrupted; finished stages are kept", file=sys.stderr)
    sys.exit(130)


MAIN_PROCESS = os.getpid()
signal.signal(signal.SIGINT, stop_on_interrupt)

try:
    command_line.prepare_build_root()
except UserError as mistake:
    print(mistake, file=sys.stderr)
    sys.exit(1)

DOIT_CONFIG = {
    "default_tasks": ["build"],
    "backend": "firmwright",
    "dep_file": str(command_line.find_build_root() / ".doit.db"),
    "check_file_uptodate": ContentChecker,
    "reporter": StageReporter,
}
