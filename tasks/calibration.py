"""calibration: how far the values of each tensor of a float network reach on real samples."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import (
    CALIBRATION,
    DISTRIBUTIONS,
    MODEL_INTERFACE,
    MODEL_MODULE,
    PREPARED_MODEL,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    quantize = require(job.recipe.quantize)
    return {
        "inputs": job.recipe.canonical["quantize"]["calibration"]["inputs"],
        "samples": quantize.calibration.samples,
        "equalize": quantize.equalize,
        "restore": quantize.arithmetic == "shift",
        "sixteen_bit": quantize.sixteen_bit,
    }


STAGE = Stage(
    name="calibration",
    sentence="see how far each tensor's values reach",
    run="firmwright.steps.calibration:run",
    reads=(MODEL_INTERFACE, MODEL_MODULE),
    writes=(CALIBRATION, DISTRIBUTIONS, PREPARED_MODEL),
    options=options,
    inputs=lambda job: job.recipe.list_files("quantize"),
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
)
