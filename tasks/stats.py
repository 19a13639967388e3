"""stats: when each layer runs, in clock cycles."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    return {
        "name": job.recipe.name,
        "platform": job.platform.name,
        "c_prefix": job.recipe.c_prefix,
    }


STAGE = Stage(
    name="stats",
    sentence="tell when each layer runs, in clock cycles",
    run="firmwright.steps.stats:run",
    reads=(PARTITION, KERNELS, PLAN, RUN),
    writes=(TIMELINE,),
    options=options,
    applies=lambda job: job.counts_instructions,
    archive=lambda job: {f"stats/{job.stats_file}": job.folder("stats") / job.stats_file},
)
