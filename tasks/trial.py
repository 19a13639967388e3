"""A trial of a search, as a program of its own: the kernels in given ways, built and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from firmwright.pipeline.command_line import set_variables
from firmwright.pipeline.search import LOG, make_trial_job
from firmwright.pipeline.task import make_tasks


def main(folder: Path, file: Path, words: list[str]) -> int:
    """Build what the words name with a file of ways, up to its run; return the exit code.

    The results lie in ``folder``, with what the build showed and what doit remembers of it.
    """
    set_variables(words)
    from firmwright.tasks import dodo  # it reads the variables while it is imported

    (job,) = dodo.get_jobs()
    trial = make_trial_job(job, folder, file)

    def task_stages() -> Iterator[dict[str, Any]]:
        yield from make_tasks([trial])

    settings = {**dodo.DOIT_CONFIG, "dep_file": str(folder / ".doit.db"), "num_process": 0}
    tasks = {"DOIT_CONFIG": settings, "task_stages": task_stages}
    words = ["run", "--output-file", str(folder / LOG), trial.task_name("run")]
    return DoitMain(ModuleTaskLoader(tasks)).run(words) or 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
