"""Declares the stage ``accuracy``."""

from __future__ import annotations

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
from firmwright.pipeline.stage import ALL, Scope, Stage
from firmwright.pipeline.stage_options import PORTABLE_NETWORK
from firmwright.pipeline.tool_stamps import compiler_tool
from firmwright.toolchain import make_host_build

STAGE = Stage(
    name="accuracy",
    sentence="compare networks on the samples of `evaluate`",
    run="firmwright.stages.accuracy:run",
    reads=(
        *(MODEL_INTERFACE, CALIBRATION, PREPARED_MODEL, QUANTIZATION),
        *(QUANTIZED_MODEL, NETWORK_INTERFACE, PARTITION, INTERFACE, BATCH_LAYOUT, KERNELS, WEIGHTS),
    ),
    writes=(ACCURACY,),
    keys=(*PORTABLE_NETWORK, "evaluate"),
    platform=ALL,
    inputs=lambda job: job.recipe.list_files(
        "evaluate", "postprocess", "libraries", "model.custom_operators"
    ),
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    condition="the key `evaluate`",
    applies=lambda job: job.recipe.evaluate and (not job.origin or job.precision),
    scope=Scope.TARGET,
    archive=ACCURACY.pack,
    about=("evaluate",),
)
