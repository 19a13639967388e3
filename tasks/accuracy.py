"""accuracy: the network and its C against the reference, on the samples of `evaluate`."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import (
    ACCURACY,
    BATCH_LAYOUT,
    CALIBRATION,
    INTERFACE,
    KERNELS,
    MODEL_INTERFACE,
    NETWORK_INTERFACE,
    PARTITION,
    PREPARED_MODEL,
    QUANTIZATION,
    QUANTIZED_MODEL,
    WEIGHTS,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage
from firmwright.pipeline.tools import compiler_tool
from firmwright.toolchain import make_host_build


def options(job: Job) -> Any:
    canonical = job.recipe.canonical
    return {**canonical["evaluate"], "detection": canonical.get("detection")}


STAGE = Stage(
    name="accuracy",
    sentence="compare networks on the samples of `evaluate`",
    run="firmwright.steps.accuracy:run",
    reads=(
        *(MODEL_INTERFACE, CALIBRATION, PREPARED_MODEL, QUANTIZATION),
        *(QUANTIZED_MODEL, NETWORK_INTERFACE, PARTITION, INTERFACE, BATCH_LAYOUT, KERNELS, WEIGHTS),
    ),
    writes=(ACCURACY,),
    options=options,
    inputs=lambda job: job.recipe.list_files("evaluate", "postprocess", "libraries"),
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    applies=lambda job: job.recipe.evaluate and not job.origin,
    scope=Scope.TARGET,
    archive=ACCURACY.pack,
    about=("evaluate",),
)
