"""Declares the stage ``objects``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import OBJECTS, PROJECT
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.stage_options import get_build
from firmwright.toolchain.boards import is_built_elsewhere

STAGE = Stage(
    name="objects",
    sentence="compile the C project",
    run="firmwright.stages.objects:run",
    reads=(PROJECT,),
    writes=(OBJECTS,),
    keys=("cflags",),
    platform=("architecture",),
    facts={"build": get_build},
    tools=lambda job: [job.compiler],
    condition="a platform whose objects firmwright compiles",
    applies=lambda job: not is_built_elsewhere(job.platform.board),
)
