"""Builds and runs one trial of a search for variants, in a copy of a process or as a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from firmwright.cluster.lifeline import follow_lifeline
from firmwright.cluster.order import LOG
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_arguments import enter_repository
from firmwright.pipeline.task import make_tasks
from firmwright.tune.variant_trials import VARIANTS, make_trial_job, read_tried


def main(scratch: str, arguments: Sequence[str], text: str) -> int:
    """Build the recipe with the variants of a tuned file's ``text``, up to its run.

    The function prints the result and returns the exit code.
    """
    folder = Path(scratch)
    failed, trial = build_trial(folder, arguments, (VARIANTS, text), make_trial_job, ("run",))
    if not failed:
        print(msgspec.json.encode(read_tried(trial, folder.name)).decode())
    return failed


def build_trial(
    folder: Path,
    arguments: Sequence[str],
    file: tuple[str, str],
    make_job: Callable[[Job, Path], Job],
    stages: Sequence[str],
) -> tuple[int, Job]:
    """Build a trial up to ``stages``, and return the exit code and the job of the trial.

    ``file`` is the name and the text of the file that the trial reads. The ``folder`` contains the
    file, the results, the log of the build, and the state of doit.
    """
    enter_repository()  # a search runs in another folder
    set_variables(arguments)
    from firmwright.tasks import dodo  # this import reads the variables

    dodo.get_jobs.cache_clear()  # a copied process contains the cached jobs of its parent
    (job,) = dodo.get_jobs()
    name, text = file
    (folder / name).write_text(text, encoding="utf-8")
    trial = make_job(job, folder)

    def task_stages() -> Iterator[dict[str, Any]]:
        yield from make_tasks([trial])

    settings = {**dodo.DOIT_CONFIG, "dep_file": str(folder / ".doit.db"), "num_process": 0}
    tasks = {"DOIT_CONFIG": settings, "task_stages": task_stages}
    # doit resets the variables when it is called, so the command repeats them.
    names = [trial.task_name(stage) for stage in stages if trial.has_stage(stage)]
    command = ["run", "--output-file", str(folder / LOG), *names, *arguments]
    return run_tasks(tasks, command), trial


if __name__ == "__main__":
    watched, scratch, *arguments = sys.argv[1:]
    follow_lifeline(int(watched))
    sys.exit(main(scratch, arguments, sys.stdin.read()))
