"""Declares the stage ``batch``, which applies only to recipes with a batch."""

from __future__ import annotations

from firmwright.pipeline.artifacts import BATCH, NETWORK_INTERFACE, NETWORK_MODULE
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import (
    MEMORIES,
    MIX,
    REWRITES,
)

STAGE = Stage(
    name="batch",
    sentence="find the largest batch that fits",
    run="firmwright.stages.batch:run",
    reads=(NETWORK_MODULE, NETWORK_INTERFACE),
    writes=(BATCH,),
    keys=(*MIX, *REWRITES, *MEMORIES, "batch", "compare", "extensions"),
    platform=ALL,
    inputs=lambda job: [*job.recipe.list_files("transforms", "extensions"), *job.device_files],
    condition="the key `batch`",
    applies=lambda job: job.recipe.batch,
    for_both=True,
    about=("batch",),
)
