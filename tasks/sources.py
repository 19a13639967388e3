"""sources: the generated C project."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

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
from firmwright.pipeline.stage import Stage
from firmwright.toolchain import load_toolchain


def options(job: Job) -> Any:
    recipe = job.recipe
    return {
        "name": recipe.name,
        "recipe": recipe.network_sha256,
        "c_prefix": recipe.c_prefix,
        "arena": recipe.arena,
        "hooks": recipe.hooks,
        "selftest": recipe.selftest,
        "slot": [msgspec.to_builtins(recipe.slot), recipe.counter] if recipe.slot else None,
        "cores": job.cores,
        "platform": asdict(job.platform),
        "build": job.build_settings,
        "loadables": [asdict(load_toolchain(name)) for name in job.platform.modules.values()],
        "classes": recipe.canonical.get("classes"),
        "detection": recipe.canonical.get("detection"),
        "export": recipe.export is not None,
        "demo": msgspec.to_builtins(recipe.demo) if recipe.demo else None,
        "libraries": recipe.canonical.get("libraries"),
    }


def inputs(job: Job) -> list[Path]:
    files = [*job.device_files, *job.recipe.list_files("postprocess", "libraries")]
    return [*files, *job.platform_files]


def templates(job: Job) -> list[str]:
    used = ["network", "application", "runtime", "project", "libraries"]
    used.append("boards/*")  # they include each other
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
    run="firmwright.steps.sources:run",
    reads=(INTERFACE, BATCH_LAYOUT, PARTITION, KERNELS, WEIGHTS, PLAN, GOLDEN),
    writes=(PROJECT,),
    options=options,
    inputs=inputs,
    templates=templates,
    tools=lambda job: [job.compiler] if job.has_firmware else [],
    archive=lambda job: PROJECT.pack(job, "src/"),
)
