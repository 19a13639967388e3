"""Runs the stage ``reference``: computes the run's samples in the model's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.job import Job
from firmwright.verify.run_records import ReferenceRecord


def run(job: Job, folder: Path) -> None:
    """Write ``reference.json`` and the outputs of the single samples (``outputs.npz``)."""
    single, interface = artifacts.NETWORK_INTERFACE.read(job), artifacts.INTERFACE.read(job)
    layout = recipe_samples.read_batch_layout(job, interface)
    _, alone = recipe_samples.read_run_samples(job, single, job.recipe.run.samples * layout.size)
    reference = recipe_samples.run_reference(job, interface, alone)
    artifacts.REFERENCE.write(folder, ReferenceRecord(reference.runtime))
    columns = zip(*reference.outputs, strict=True)
    arrays = {f"output_{i}": np.stack(column) for i, column in enumerate(columns)}
    artifacts.REFERENCE_OUTPUTS.write(folder, arrays)
