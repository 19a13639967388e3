"""Declares the stage ``samples``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import MODEL_INTERFACE, NETWORK_INTERFACE, NETWORK_VALUES
from firmwright.pipeline.stage import Scope, Stage
from firmwright.pipeline.stage_options import RUN_SAMPLES, canonical_run_inputs, list_run_files

STAGE = Stage(
    name="samples",
    sentence="check that the samples fit the network",
    run="firmwright.stages.samples:run",
    reads=(MODEL_INTERFACE, NETWORK_INTERFACE, NETWORK_VALUES),
    keys=(
        *(*RUN_SAMPLES, "classes", "detection", "inputs"),
        *("evaluate.samples", "evaluate.labels", "evaluate.metric"),
    ),
    inputs=lambda job: [
        *list_run_files(job),
        *job.recipe.list_files("evaluate.inputs", "evaluate.labels", "postprocess"),
    ],
    condition="samples in `run` or `evaluate`, or class names in `postprocess`",
    applies=lambda job: canonical_run_inputs(job) or job.recipe.detection or job.recipe.classes,
    scope=Scope.MODEL,
)
