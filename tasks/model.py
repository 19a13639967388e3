"""Declares the stage ``model``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage


def inputs(job: Job) -> list[Path]:
    """Return the files of the model, and the other files with the supplier's signature."""
    source, files = job.recipe.model, job.recipe.list_files("model")
    if source.signature is None or source.path is None:
        return files
    # The import is late, because few recipes have a signature.
    from firmwright.bundle.model_signature import list_signed_files

    model = job.recipe.resolve(source.path).absolute()
    return [*files, *list_signed_files(job.recipe.resolve(source.signature), model)]


STAGE = Stage(
    name="model",
    sentence="fetch the model and import it",
    run="firmwright.stages.model:run",
    writes=(MODEL_INTERFACE, MODEL_MODULE),
    keys=("model", "inputs", "outputs", "dimensions"),
    inputs=inputs,
    scope=Scope.MODEL,
    about=("model",),
)
