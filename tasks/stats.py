"""Declares the stage ``stats``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.stage import Stage

STAGE = Stage(
    name="stats",
    sentence="report when each layer runs",
    run="firmwright.steps.stats:run",
    reads=(PARTITION, KERNELS, PLAN, RUN),
    writes=(TIMELINE,),
    keys=("name", "c_prefix", "clock"),
    platform=("name", "clock", "cycle_table", "memories", "energy"),
    condition="an emulator that counts instructions",
    applies=lambda job: job.counts_instructions,
    archive=lambda job: {f"stats/{job.stats_file}": job.folder("stats") / job.stats_file},
)
