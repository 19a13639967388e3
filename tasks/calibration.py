"""calibration: how far the values of each tensor of a float network reach on real samples."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    quantize = require(job.recipe.quantize)
    return {
        "inputs": job.recipe.canonical["quantize"]["calibration"]["inputs"],
        "samples": quantize.calibration.samples,
        "per_channel": quantize.per_channel,
        "equalize": quantize.equalize,
        "restore": quantize.arithmetic == "shift",
        "sixteen_bit": quantize.sixteen_bit,
    }


STAGE = Stage(
    name="calibration",
    sentence="see how far each tensor's values reach",
    run="firmwright.steps.calibration:run",
    reads=(artifacts.MODEL_INTERFACE, artifacts.MODEL_MODULE),
    writes=(artifacts.CALIBRATION, artifacts.DISTRIBUTIONS, artifacts.PREPARED_MODEL),
    options=options,
    inputs=lambda job: job.recipe.list_files("quantize"),
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    about=("quantize", "calibration", "inputs"),
)
