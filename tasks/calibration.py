"""Declares the stage ``calibration``."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.stage import Scope, Stage

STAGE = Stage(
    name="calibration",
    sentence="find the range of each tensor's values",
    run="firmwright.stages.calibration:run",
    reads=(artifacts.MODEL_INTERFACE, artifacts.MODEL_MODULE),
    writes=(artifacts.CALIBRATION, artifacts.DISTRIBUTIONS, artifacts.PREPARED_MODEL),
    keys=(
        "inputs",
        *("quantize.calibration.inputs", "quantize.calibration.samples", "quantize.equalize"),
        *("quantize.arithmetic", "quantize.activations", "quantize.weights", "quantize.layers"),
        *("quantize.per_channel", "quantize.search"),
    ),
    inputs=lambda job: job.recipe.list_files("quantize"),
    condition="the key `quantize`",
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    about=("quantize", "calibration", "inputs"),
)
