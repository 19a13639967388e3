"""kernels: every region as a C function and its constants."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import KEPT_REGIONS, KERNELS, LOWERED, PARTITION, WEIGHTS
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import mix_options
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    recipe = job.recipe
    wants = ["tuned"] if recipe.tune else []
    demands = [recipe.allow_fallback, recipe.require_offload]
    return [mix_options(job), *demands, recipe.extensions, *wants]


STAGE = Stage(
    name="kernels",
    sentence="lower every region to C",
    run="firmwright.steps.kernels:run",
    reads=(PARTITION, LOWERED),
    writes=(KERNELS, WEIGHTS, KEPT_REGIONS),
    options=options,
    inputs=lambda job: [*job.recipe.list_files("extensions"), *job.device_files, *job.tuned_files],
    templates=lambda job: [f"{device.name}/layers/*.j2" for device in job.recipe.target],
    scope=Scope.TARGET,
)
