"""The samples that a firmware runs on, and what the model's own runtime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.recipe.quantization import Inputs

from .job import Job
from .samples import read_network_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firmwright.data.samples import Column, Sample
    from firmwright.ir.tensors import BatchLayout, ModelInterface
    from firmwright.models.formats import ReferenceOutputs


def select_run_inputs(job: Job) -> Inputs | None:
    """Return where the run's samples are: the evaluation's, if the recipe names no others."""
    if job.recipe.run.inputs is None and job.recipe.evaluate is not None:
        return job.recipe.evaluate.inputs
    return job.recipe.run.inputs


def list_run_files(job: Job) -> list[Path]:
    """Return the user's files that these samples are read from."""
    own = job.recipe.run.inputs is not None
    return job.recipe.list_files("run.inputs" if own else "evaluate.inputs")


def list_sample_files(job: Job) -> list[Path]:
    """Return the user's files that these samples are read from, and those of the classes."""
    return [*list_run_files(job), *job.recipe.list_files("postprocess")]


def canonical_run_inputs(job: Job) -> Any:
    canonical = job.recipe.canonical
    return canonical["run"]["inputs"] or canonical.get("evaluate", {}).get("inputs")


def read_run_columns(job: Job, interface: ModelInterface, count: int) -> dict[str, Column]:
    """Return ``count`` samples for a batch of 1 from the recipe's data; nothing where it has none.

    One for each batch has to be there; where they do not fill the batches, they come in turn.
    """
    from firmwright.verify.samples import repeat_samples

    given = select_run_inputs(job)
    if given is None:
        return {}
    return repeat_samples(
        read_network_columns(job, interface, given, count, job.recipe.run.samples), count
    )


def read_batch_layout(job: Job, interface: ModelInterface) -> BatchLayout:
    """Return how many samples an inference takes, and along which axis each output holds them."""
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import BatchLayout

    if job.has_stage("batch"):
        return read_record(job.folder("partition") / "batch.json", BatchLayout)
    return BatchLayout(1, tuple(0 for _ in interface.outputs))


def read_run_samples(
    job: Job, single: ModelInterface, count: int
) -> tuple[dict[str, Column], list[Sample]]:
    """Return ``count`` samples for a batch of 1, and the recipe's data if they are of it."""
    from firmwright.verify.samples import random_samples, to_samples

    data = read_run_columns(job, single, count)
    if data:
        return data, to_samples(data, count)
    return data, random_samples(single.inputs, count, job.recipe.run.seed)


def run_model_reference(
    job: Job, interface: ModelInterface, alone: Sequence[Sample]
) -> ReferenceOutputs:
    """Return what the model's own reference runtime makes of samples."""
    from firmwright.models import FORMATS

    model = job.folder(job.network_stage) / f"model.{interface.format}"
    return FORMATS[interface.format].load().run_reference(model.read_bytes(), alone)


def pack_first_sample(
    interface: ModelInterface, sample: Sample, outputs: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return what the firmware read first and what it wrote: ``input_0`` …, ``output_0`` …"""
    inputs = {f"input_{i}": sample[t.name] for i, t in enumerate(interface.inputs)}
    return inputs | {f"output_{i}": array for i, array in enumerate(outputs)}
