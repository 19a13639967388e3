"""demo-run: the demo application built, and run where the firmware runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from firmwright.pipeline.artifacts import DEMO, DEMO_CONSOLE, OBJECTS, PARTITION, PROJECT
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import find_extra_archives
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tools import emulator_tool
from firmwright.toolchain.boards import load_board


def options(job: Job) -> Any:
    return {
        **job.build_settings,
        "archives": [archive.name for archive in find_extra_archives(job)],
        "c_prefix": job.recipe.c_prefix,
        "machine": load_board(job.platform.board).machine,
        "platform": asdict(job.platform),
    }


STAGE = Stage(
    name=DEMO_CONSOLE.stage,
    sentence="build the demo application and run it",
    run="firmwright.steps.demo_run:run",
    reads=(PARTITION, PROJECT, OBJECTS, DEMO),
    writes=(DEMO_CONSOLE,),
    options=options,
    inputs=lambda job: [archive for archive in find_extra_archives(job) if archive.is_file()],
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=lambda job: [job.compiler, emulator_tool(job.emulator, job.platform)],
    applies=lambda job: job.recipe.demo and not job.recipe.demo.indefinite and job.can_emulate,
)
