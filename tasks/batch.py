"""batch: how many samples at once fit the platform's memory; only for recipes that ask."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import BATCH, NETWORK_INTERFACE, NETWORK_MODULE
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import memory_options, mix_options, require, rewrite_options
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    batch = require(job.recipe.batch)
    return {
        "batch": [batch.size, batch.require],
        "jobs": [{**mix_options(each), **rewrite_options(each)} for each in job.all_jobs],
        **memory_options(job),
        "extensions": job.recipe.extensions,
    }


STAGE = Stage(
    name="batch",
    sentence="find the largest batch that fits",
    run="firmwright.steps.batch:run",
    reads=(NETWORK_MODULE, NETWORK_INTERFACE),
    writes=(BATCH,),
    options=options,
    inputs=lambda job: [*job.recipe.list_files("transforms", "extensions"), *job.device_files],
    applies=lambda job: job.recipe.batch,
    for_both=True,
    about=("batch",),
)
