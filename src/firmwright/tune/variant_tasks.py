"""Declares the tasks `tune:…`. The search code is imported late, because few builds need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from firmwright.created_folders import INDEX_FILE
from firmwright.pipeline import missing_programs
from firmwright.pipeline.job import Job
from firmwright.pipeline.network_jobs import leave_out_members
from firmwright.pipeline.task import Title, run_action

SENTENCE = "find the fastest C of each layer"


def tune(job: Job) -> None:
    from firmwright.tune import variant_search

    variant_search.tune(job)


def list_shared_results(job: Job) -> list[str]:
    """Return the results that the trials read, from the stages before the kernels."""
    stages = [name for name in job.stages if job.has_stage(name)]
    before = [name for name in stages if not job.depends_on_kernels(name)]
    needed = {
        job.name_stage(need)
        for name in stages
        if name not in before
        for need in job.stages[name].needs
    }
    return [str(job.folder(name) / INDEX_FILE) for name in before if name in needed]


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield the task of each job, such as tune:digits-rv32-bare.

    If a firmware has several networks, its task advises to tune the networks separately.
    """
    yield {"basename": "tune", "name": None, "doc": SENTENCE}
    for job in leave_out_members(jobs):
        name = f"tune:{job.bundle_name}"
        yield {
            "basename": "tune",
            "name": job.bundle_name,
            "doc": SENTENCE,
            "title": Title(job, "tune"),
            "actions": [(run_action, [job, name, partial(tune, job)])],
            "file_dep": [] if job.members else list_shared_results(job),
            "task_dep": missing_programs.preceding_tasks(job),
            "uptodate": [False],
            "verbosity": 2,
        }
