"""Declares the tasks of the commands that run builds: `reproduce:…`, `tune:…` and `search:…`.

The code of each command is imported late, because few builds need the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from firmwright.created_folders import INDEX_FILE
from firmwright.pipeline import missing_programs
from firmwright.pipeline.job import QUANTIZED_STAGE, Job
from firmwright.pipeline.network_jobs import leave_out_members
from firmwright.pipeline.task import make_job_task


def list_stages_of_trials(job: Job) -> Sequence[str]:
    """Return the stages before the kernels whose results the trials of `tune` read."""
    stages = [name for name in job.stages if job.has_stage(name)]
    before = [name for name in stages if not job.depends_on_kernels(name)]
    needed = {
        job.name_stage(need)
        for name in stages
        if name not in before
        for need in job.stages[name].needs
    }
    return [name for name in before if name in needed]


def list_stages_of_search(job: Job) -> Sequence[str]:
    return job.stages[QUANTIZED_STAGE].needs if job.has_stage(QUANTIZED_STAGE) else ()


@dataclass(frozen=True)
class Command:
    """A command with a task per job. ``run`` names its function, whose argument is a job.

    ``list_stages`` returns the stages whose results the command reads. The command compiles
    firmware itself unless ``list_stages`` is None.
    """

    name: str
    sentence: str
    run: str
    list_stages: Callable[[Job], Sequence[str]] | None = None

    def start(self, job: Job) -> None:
        resolve_name(self.run)(job)

    def make_tasks(self, jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
        """Yield the task of each job, such as tune:digits-rv32-bare.

        A network of a firmware with several networks has no task, because the firmware itself has a
        task.
        """
        yield {"basename": self.name, "name": None, "doc": self.sentence}
        for job in leave_out_members(jobs):
            needed = self.list_dependencies(job)
            yield make_job_task(job, self.name, self.sentence, self.start, **needed)

    def list_dependencies(self, job: Job) -> dict[str, Any]:
        if self.list_stages is None:
            return {}
        stages = () if job.members else self.list_stages(job)
        return {
            "file_dep": [str(job.folder(name) / INDEX_FILE) for name in stages],
            "task_dep": missing_programs.preceding_tasks(job),
            "uptodate": [False],
        }


COMMANDS = (
    Command(
        "reproduce",
        "build twice in different environments, and compare the bundles",
        "firmwright.rebuild.reproduce:reproduce",
    ),
    Command(
        "tune",
        "find the fastest C of each layer",
        "firmwright.tune.variant_search:tune",
        list_stages_of_trials,
    ),
    Command(
        "search",
        "find the type of each layer's weights",
        "firmwright.precision.type_search:search",
        list_stages_of_search,
    ),
)
