"""Declares the stage ``quantized``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import (
    CALIBRATION,
    DISTRIBUTIONS,
    MODEL_INTERFACE,
    PREPARED_MODEL,
    QUANTIZATION,
    QUANTIZED_MODEL,
    QUANTIZED_RELAX,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage
from firmwright.pipeline.stage_options import require


def inputs(job: Job) -> list[Path]:
    quantize = job.recipe.quantize
    samples = job.recipe.list_files("quantize") if quantize and quantize.sees_samples else []
    return [*samples, *job.precision_files]


def archive(job: Job) -> dict[str, Path]:
    """Return the record and the quantized network, which another recipe can use as its model."""
    shift = require(job.recipe.quantize).arithmetic == "shift"
    network = QUANTIZED_RELAX if shift else QUANTIZED_MODEL
    return {**QUANTIZATION.pack(job), **network.pack(job, "quantized/")}


STAGE = Stage(
    name="quantized",
    sentence="quantize the network",
    run="firmwright.stages.quantized:run",
    reads=(MODEL_INTERFACE, CALIBRATION, DISTRIBUTIONS, PREPARED_MODEL),
    writes=(QUANTIZED_MODEL, QUANTIZATION),
    keys=("quantize", "inputs"),
    inputs=inputs,
    condition="the key `quantize`",
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    archive=archive,
    about=("quantize",),
)
