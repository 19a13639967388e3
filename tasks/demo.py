"""Declares the stage ``demo``."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.stage_options import (
    SHOWN_SAMPLE,
    describe_board,
    list_shown_sample_files,
)

STAGE = Stage(
    name="demo",
    sentence="write the demo application",
    run="firmwright.stages.demo:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.PLAN,
        artifacts.PROJECT,
        artifacts.RUN_SAMPLE,
    ),
    writes=(artifacts.DEMO,),
    keys=(*SHOWN_SAMPLE, "name", "c_prefix", "arena", "demo"),
    platform=("name", "board", "accelerators"),
    facts={"board": describe_board},
    inputs=list_shown_sample_files,
    templates=lambda job: [
        "demo/*.j2",
        "application/console.j2",
        "network/arena.j2",
        *(f"{device}/hooks/profiler_*.j2" for device in job.platform.accelerators),
    ],
    condition="the key `demo`",
    applies=lambda job: job.recipe.demo,
    archive=lambda job: artifacts.DEMO.pack(job, "src/demo/"),
)
