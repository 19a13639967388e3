"""Declares the stage ``selftest``."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import (
    NETWORK,
    RUN_SAMPLES,
    list_sample_files,
)
from firmwright.pipeline.tool_stamps import compiler_tool
from firmwright.toolchain import make_host_build

STAGE = Stage(
    name="selftest",
    sentence="compute the checksums of the layers on golden samples",
    run="firmwright.stages.selftest:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.KERNELS,
        artifacts.WEIGHTS,
        artifacts.PLAN,
    ),
    writes=(artifacts.GOLDEN,),
    keys=(*NETWORK, *RUN_SAMPLES, "run.tolerance", "selftest"),
    platform=ALL,
    inputs=lambda job: [*list_sample_files(job), *job.recipe.list_files("libraries")],
    templates=lambda job: [
        "network/*.j2",
        "application/*.j2",
        "boards/posix/*",
        *(f"{device}/**/*.j2" for device in job.platform.accelerators),
    ],
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    condition="the key `selftest`",
    applies=lambda job: job.recipe.selftest and not job.origin,
    about=("selftest",),
)
