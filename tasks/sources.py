"""Declares the stage ``sources``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import (
    BATCH_LAYOUT,
    GOLDEN,
    INTERFACE,
    KERNELS,
    PARTITION,
    PLAN,
    PROJECT,
    WEIGHTS,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import NETWORK, describe_board, describe_modules, get_build


def inputs(job: Job) -> list[Path]:
    files = [*job.device_files, *job.recipe.list_files("postprocess", "libraries")]
    return [*files, *job.platform_files]


def templates(job: Job) -> list[str]:
    used = ["network", "application", "runtime", "project", "libraries"]
    used.append("boards/*")  # templates of boards include each other
    used.append("c/layers")  # templates of other devices import them
    if not job.build.settings.libc:
        used.append("freestanding")
    if job.recipe.detection:
        used.append("postprocess")
    if job.recipe.slot:
        used.append("slot")
    owners = {part for pair in job.cores.items() for part in pair if part}
    return [
        *(f"{folder}/*.j2" for folder in used),
        *(f"{owner}/**/*.j2" for owner in sorted(owners)),
    ]


STAGE = Stage(
    name="sources",
    sentence="write the C project",
    run="firmwright.stages.sources:run",
    reads=(INTERFACE, BATCH_LAYOUT, PARTITION, KERNELS, WEIGHTS, PLAN, GOLDEN),
    writes=(PROJECT,),
    keys=(*NETWORK, "compare", "counter", "demo", "export", "run.board"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "modules": describe_modules},
    inputs=inputs,
    templates=templates,
    tools=lambda job: [job.compiler] if job.has_firmware else [],
    archive=lambda job: PROJECT.pack(job, "src/"),
)
