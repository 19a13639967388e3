"""samples: the data that the recipe names, checked before anything is compiled."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline.artifacts import MODEL_INTERFACE, NETWORK_INTERFACE, NETWORK_VALUES
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import canonical_run_inputs, list_run_files
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    canonical = job.recipe.canonical
    evaluate = canonical.get("evaluate", {})
    return {
        "run": [canonical_run_inputs(job), job.recipe.run.samples],
        "evaluate": [evaluate.get(key) for key in ("inputs", "samples", "labels", "metric")],
        "classes": canonical.get("classes"),
        "detection": canonical.get("detection"),
    }


STAGE = Stage(
    name="samples",
    sentence="check that the samples fit the network",
    run="firmwright.steps.samples:run",
    reads=(MODEL_INTERFACE, NETWORK_INTERFACE, NETWORK_VALUES),
    options=options,
    inputs=lambda job: [
        *list_run_files(job),
        *job.recipe.list_files("evaluate.inputs", "evaluate.labels", "postprocess"),
    ],
    applies=lambda job: canonical_run_inputs(job) or job.recipe.detection or job.recipe.classes,
    scope=Scope.MODEL,
)
