"""mapping: the estimated costs of the recipe's target and of another one; nothing is measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from firmwright.pipeline.artifacts import KERNELS, MAPPING, PARTITION, RUN
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    timing = asdict(require(job.platform.timing))
    return [job.recipe.name, *(each.target for each in job.all_jobs), timing]


STAGE = Stage(
    name="mapping",
    sentence="estimate what the target and another one cost",
    run="firmwright.steps.mapping:run",
    reads=(PARTITION, KERNELS, RUN),
    compares=True,
    writes=(MAPPING,),
    options=options,
    applies=lambda job: job.has_firmware and job.recipe.compare and job.platform.timing,
    archive=MAPPING.pack,
)
