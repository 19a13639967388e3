"""Declares the stage ``demo-run``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import DEMO, DEMO_CONSOLE, OBJECTS, PARTITION, PROJECT
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import (
    MIX,
    describe_board,
    find_extra_archives,
    get_build,
    name_archives,
)
from firmwright.pipeline.tool_stamps import emulator_tool

STAGE = Stage(
    name=DEMO_CONSOLE.stage,
    sentence="build the demo application and run it",
    run="firmwright.stages.demo_run:run",
    reads=(PARTITION, PROJECT, OBJECTS, DEMO),
    writes=(DEMO_CONSOLE,),
    keys=(*MIX, "c_prefix", "demo", "libraries"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "archives": name_archives},
    inputs=lambda job: [archive for archive in find_extra_archives(job) if archive.is_file()],
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=lambda job: [job.compiler, emulator_tool(job.emulator, job.platform)],
    condition="the key `demo` without `indefinite`, and an emulator",
    applies=lambda job: job.recipe.demo and not job.recipe.demo.indefinite and job.can_emulate,
)
