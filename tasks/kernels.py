"""Declares the stage ``kernels``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import KEPT_REGIONS, KERNELS, LOWERED, PARTITION, WEIGHTS
from firmwright.pipeline.stage import ALL, Scope, Stage
from firmwright.pipeline.stage_options import MIX

STAGE = Stage(
    name="kernels",
    sentence="lower every region to C",
    run="firmwright.stages.kernels:run",
    reads=(PARTITION, LOWERED),
    writes=(KERNELS, WEIGHTS, KEPT_REGIONS),
    keys=(*MIX, "allow_fallback", "require_offload", "extensions", "tune", "compress"),
    platform=ALL,
    inputs=lambda job: [*job.recipe.list_files("extensions"), *job.device_files, *job.tuned_files],
    templates=lambda job: [
        "operators/*.j2",
        *(f"{device.name}/layers/*.j2" for device in job.recipe.target),
    ],
    scope=Scope.TARGET,
)
