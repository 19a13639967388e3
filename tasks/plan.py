"""Declares the stage ``plan``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import INTERFACE, KERNELS, PARTITION, PLAN
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.stage_options import MEMORIES, MEMORY_FIELDS

STAGE = Stage(
    name="plan",
    sentence="assign every buffer its position in memory",
    run="firmwright.stages.plan:run",
    reads=(INTERFACE, PARTITION, KERNELS),
    writes=(PLAN,),
    keys=(*MEMORIES, "slot"),
    platform=(*MEMORY_FIELDS, "accelerators"),
)
