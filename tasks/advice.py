"""advice: what would let the network run faster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from firmwright.pipeline.artifacts import ADVICE, PARTITION, REGIONS
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import mix_options
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    timing = job.platform.timing
    return [mix_options(job), asdict(timing) if timing else None]


STAGE = Stage(
    name="advice",
    sentence="find what would let the network run faster",
    run="firmwright.steps.advice:run",
    reads=(PARTITION, REGIONS),
    writes=(ADVICE,),
    options=options,
    inputs=lambda job: [*job.device_files, *job.tuned_files],
    applies=lambda job: not job.origin,
)
