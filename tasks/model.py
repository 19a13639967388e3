"""model: the model file, fetched and imported to Relax in QDQ style."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage


def options(job: Job) -> Any:
    source = job.recipe.model
    return {
        "url": source.url,
        "python": source.python,
        "sha256": source.sha256,
        "format": source.format,
        "signature": source.signature,
        "key": source.key,
        "inputs": {name: asdict(entry) for name, entry in job.recipe.inputs.items()},
    }


STAGE = Stage(
    name="model",
    sentence="fetch the model and import it",
    run="firmwright.steps.model:run",
    writes=(MODEL_INTERFACE, MODEL_MODULE),
    options=options,
    inputs=lambda job: job.recipe.list_files("model"),
    scope=Scope.MODEL,
    about=("model",),
)
