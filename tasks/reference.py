"""Declares the stage ``reference``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import OF_SAMPLES, REFERENCE, REFERENCE_OUTPUTS
from firmwright.pipeline.stage import Scope, Stage
from firmwright.pipeline.stage_options import RUN_SAMPLES, list_run_files

STAGE = Stage(
    name="reference",
    sentence="compute the samples in the model's runtime",
    run="firmwright.stages.reference:run",
    reads=OF_SAMPLES,
    writes=(REFERENCE, REFERENCE_OUTPUTS),
    keys=(*RUN_SAMPLES, "model", "inputs"),
    inputs=list_run_files,
    condition="an emulator or a board that runs the firmware",
    applies=lambda job: job.is_run,
    scope=Scope.TARGET,
)
