"""Builds one bundle, or runs one trial of a search, in a copy of a process or as a program.

The parameters of each function are a folder, arguments of ``doit run``, and a text. Each function
prints its result to standard output and errors to standard error, and returns the exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from firmwright.child import follow_lifeline
from firmwright.cluster.order import LOG
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.job import Job
from firmwright.pipeline.network_jobs import leave_out_members
from firmwright.pipeline.recipe_arguments import enter_repository
from firmwright.pipeline.snapshot import find_finished_bundle

# The modules of searches are imported late, because most builds are not trials.


def build(folder: str, arguments: Sequence[str], _text: str = "") -> int:
    """Build one bundle, print its path, and return the exit code.

    The stages are reported in a log in ``folder``, unless ``folder`` is empty.
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


def try_variants(scratch: str, arguments: Sequence[str], text: str) -> int:
    """Build the recipe with the variants of a tuned file's ``text``, up to its run."""
    from firmwright.tune.variant_trials import VARIANTS, make_trial_job, read_tried

    folder = Path(scratch)
    failed, trial = build_trial(folder, arguments, (VARIANTS, text), make_trial_job, ("run",))
    if not failed:
        print(msgspec.json.encode(read_tried(trial, folder.name)).decode())
    return failed


def try_types(scratch: str, arguments: Sequence[str], text: str) -> int:
    """Build and evaluate the firmware with the weight types of a precision file's ``text``."""
    from firmwright.pipeline.layer_precision import TRIAL_FILE, make_trial_job
    from firmwright.precision.type_trials import read_tried

    stages = ("firmware", "accuracy")
    failed, trial = build_trial(
        Path(scratch), arguments, (TRIAL_FILE, text), make_trial_job, stages
    )
    if not failed:
        print(msgspec.json.encode(read_tried(trial)).decode())
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
    from firmwright.pipeline.task import make_tasks

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


PROGRAMS = {program.__name__: program for program in (build, try_variants, try_types)}

if __name__ == "__main__":
    name, watched, folder, *arguments = sys.argv[1:]
    follow_lifeline(int(watched))
    sys.exit(PROGRAMS[name](folder, arguments, sys.stdin.read()))
