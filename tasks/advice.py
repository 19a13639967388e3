"""Declares the stage ``advice``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import ADVICE, PARTITION, REGIONS
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import MIX

STAGE = Stage(
    name="advice",
    sentence="find changes that would make the network faster",
    run="firmwright.stages.advice:run",
    reads=(PARTITION, REGIONS),
    writes=(ADVICE,),
    keys=(*MIX, "tune"),
    platform=ALL,
    inputs=lambda job: [*job.device_files, *job.tuned_files],
    applies=lambda job: not job.origin,
)
