"""selftest: the golden samples, and the checksums of the layers that they give."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import canonical_run_inputs, list_sample_files
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tools import compiler_tool
from firmwright.toolchain import make_host_build


def options(job: Job) -> Any:
    spec = job.recipe.run
    return {
        "samples": job.recipe.selftest,
        "seed": spec.seed,
        "tolerance": msgspec.to_builtins(spec.tolerance),
        "inputs": canonical_run_inputs(job),
        "name": job.recipe.name,
        "c_prefix": job.recipe.c_prefix,
        "platform": asdict(job.platform),
        "libraries": job.recipe.canonical.get("libraries"),
        "cores": job.cores,
    }


STAGE = Stage(
    name="selftest",
    sentence="take the checksums of the layers on golden samples",
    run="firmwright.steps.selftest:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.KERNELS,
        artifacts.WEIGHTS,
        artifacts.PLAN,
    ),
    writes=(artifacts.GOLDEN,),
    options=options,
    inputs=lambda job: [*list_sample_files(job), *job.recipe.list_files("libraries")],
    templates=lambda job: [
        "network/*.j2",
        "application/*.j2",
        "boards/posix/*",
        *(f"{device}/**/*.j2" for device in job.platform.accelerators),
    ],
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    applies=lambda job: job.recipe.selftest and not job.origin,
    about=("selftest",),
)
