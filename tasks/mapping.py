"""Declares the stage ``mapping``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import KERNELS, MAPPING, PARTITION, RUN
from firmwright.pipeline.stage import Stage

STAGE = Stage(
    name="mapping",
    sentence="estimate the cost of the target and of another target",
    run="firmwright.stages.mapping:run",
    reads=(PARTITION, KERNELS, RUN),
    compares=True,
    writes=(MAPPING,),
    keys=("name", "target", "compare", "c_prefix"),
    platform=("timing",),
    condition="the key `compare`, and a platform with `timing`",
    applies=lambda job: job.has_firmware and job.recipe.compare and job.platform.timing,
    archive=MAPPING.pack,
)
