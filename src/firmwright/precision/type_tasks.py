"""Declares the tasks `search:…`. The search code is imported late, because few commands need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from firmwright.created_folders import INDEX_FILE
from firmwright.pipeline import missing_programs
from firmwright.pipeline.job import QUANTIZED_STAGE, Job
from firmwright.pipeline.network_jobs import leave_out_members
from firmwright.pipeline.task import Title, run_action

SENTENCE = "find the type of each layer's weights"


def search(job: Job) -> None:
    from firmwright.precision import type_search

    type_search.search(job)


def list_inputs(job: Job) -> list[str]:
    if not job.has_stage(QUANTIZED_STAGE):
        return []
    return [str(job.folder(name) / INDEX_FILE) for name in job.stages[QUANTIZED_STAGE].needs]


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield the task of each job: search:digits-rv32-bare."""
    yield {"basename": "search", "name": None, "doc": SENTENCE}
    for job in leave_out_members(jobs):
        name = f"search:{job.bundle_name}"
        yield {
            "basename": "search",
            "name": job.bundle_name,
            "doc": SENTENCE,
            "title": Title(job, "search"),
            "actions": [(run_action, [job, name, partial(search, job)])],
            "file_dep": [] if job.members else list_inputs(job),
            "task_dep": missing_programs.preceding_tasks(job),
            "uptodate": [False],
            "verbosity": 2,
        }
