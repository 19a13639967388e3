"""Declares the stage ``stats``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def list_archived(job: Job) -> dict[str, Path]:
    """Return the file by its name in the bundle; empty for a board without a cycle counter."""
    path = job.folder("stats") / job.stats_file
    return {f"stats/{job.stats_file}": path} if path.is_file() else {}


STAGE = Stage(
    name="stats",
    sentence="report when each layer runs",
    run="firmwright.stages.stats:run",
    reads=(PARTITION, KERNELS, PLAN, RUN),
    writes=(TIMELINE,),
    keys=("name", "c_prefix", "clock"),
    platform=("name", "clock", "cycle_table", "memories", "energy"),
    condition="an emulator that counts instructions, or a board",
    applies=lambda job: job.counts_instructions or job.measures_cycles,
    archive=list_archived,
)
