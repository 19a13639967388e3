"""A trial of a search, as a program of its own: the kernels in given ways, built and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from firmwright.cluster.lifeline import follow_lifeline
from firmwright.cluster.order import LOG
from firmwright.pipeline.command_line import run_tasks, set_variables
from firmwright.pipeline.task import make_tasks
from firmwright.tune.trials import WAYS, make_trial_job, read_tried


def main(watched: int, folder: Path, words: list[str]) -> int:
    """Build what the words name in the ways that standard input has, up to its run.

    Print what came out; return the exit code. ``watched`` is an end of the lifeline. The results
    lie in ``folder``, with what the build showed and what doit remembers of it.
    """
    follow_lifeline(watched)
    set_variables(words)
    from . import dodo  # it reads the variables while it is imported

    (job,) = dodo.get_jobs()
    (folder / WAYS).write_text(sys.stdin.read(), encoding="utf-8")
    trial = make_trial_job(job, folder)

    def task_stages() -> Iterator[dict[str, Any]]:
        yield from make_tasks([trial])

    settings = {**dodo.DOIT_CONFIG, "dep_file": str(folder / ".doit.db"), "num_process": 0}
    tasks = {"DOIT_CONFIG": settings, "task_stages": task_stages}
    # doit forgets the variables when it is called, so it gets them again.
    command = ["run", "--output-file", str(folder / LOG), trial.task_name("run"), *words]
    failed = run_tasks(tasks, command)
    if not failed:
        print(msgspec.json.encode(read_tried(trial, folder.name)).decode())
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
