"""Reads the samples that a recipe names, and runs them in the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from firmwright.data.arrays import dequantize_array
from firmwright.data.reading import read_columns
from firmwright.data.samples import (
    BYTES,
    UNIT,
    Column,
    Range,
    Sample,
    random_samples,
    refuse_not_finite,
    refuse_not_whole,
    repeat_samples,
    requantize_columns,
    to_samples,
)
from firmwright.ir.tensors import BatchLayout, ModelInterface, Tensor
from firmwright.models import FORMATS
from firmwright.models.formats import ReferenceOutputs
from firmwright.recipe.quantize_keys import Inputs
from firmwright.verify.batches import join_samples, split_outputs

from .artifact import NETWORK_STAGE
from .artifacts import (
    BATCH_LAYOUT,
    LOWERED_MODEL,
    MODEL_INTERFACE,
    NETWORK_VALUES,
    PARTITION,
    REFERENCE,
    REFERENCE_OUTPUTS,
)
from .job import Job
from .python_operators import load_custom_operators
from .stage_options import select_run_inputs


def read_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return the first ``count`` samples, or all samples if ``count`` is None.

    Raises UserError if a sample is not valid.
    """
    columns = read_columns(inputs, given, job.data_folders, count)
    samples = to_samples(columns, min(len(c.arrays) for c in columns.values()))
    refuse_not_finite(samples, columns)
    refuse_not_whole(columns, find_stated_integers(job))
    return samples


def read_real_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return samples as real numbers, also for the integer inputs of a quantized model."""
    return dequantize_samples(inputs, read_samples(job, inputs, given, count))


def dequantize_samples(inputs: Sequence[Tensor], samples: Sequence[Sample]) -> list[Sample]:
    tensors = {t.name: t for t in inputs}
    return [
        {name: dequantize_array(array, tensors[name]) for name, array in sample.items()}
        for sample in samples
    ]


def read_network_columns(
    job: Job, interface: ModelInterface, given: Inputs, count: int | None, least: int | None = None
) -> dict[str, Column]:
    """Return samples in the form of the compiled network's inputs, for a batch of 1.

    Integers of the recipe have the quantization parameters of the recipe's model. These integers
    are converted if the network has different quantization parameters.
    """
    source = MODEL_INTERFACE.read(job)
    if all(t.scale is None for t in source.inputs):
        columns = read_columns(interface.inputs, given, job.data_folders, count, least)
        refuse_not_whole(columns, find_stated_integers(job))
        refuse_not_whole(
            columns, find_indices(job, interface), "that are not indices of their axis"
        )
        return columns
    source_columns = read_columns(source.inputs, given, job.data_folders, count, least)
    return requantize_columns(source_columns, source.inputs, interface.inputs)


def read_run_columns(job: Job, interface: ModelInterface, count: int) -> dict[str, Column]:
    """Return ``count`` samples for a batch of 1 from the recipe's data.

    The result is empty if the recipe has no data. The data must have at least one sample per batch.
    The samples are repeated if they do not fill all batches.
    """
    given = select_run_inputs(job)
    if given is None:
        return {}
    columns = read_network_columns(job, interface, given, count, job.recipe.run.samples)
    return repeat_samples(columns, count)


def read_run_samples(
    job: Job, single: ModelInterface, count: int
) -> tuple[dict[str, Column], list[Sample]]:
    """Return the recipe's data, which may be empty, and ``count`` samples for a batch of 1."""
    data = read_run_columns(job, single, count)
    if data:
        return data, to_samples(data, count)
    ranges = find_drawn_ranges(job, single)
    whole = find_whole_names(job)
    return data, random_samples(single.inputs, count, job.recipe.run.seed, ranges, whole)


def find_drawn_ranges(job: Job, single: ModelInterface) -> dict[str, Range]:
    """Return a mapping from inputs to the limits of random samples.

    The default limits of a float are 0 and 1. If the float represents an integer, the default
    limits are the limits of a byte.
    """
    stated = NETWORK_VALUES.read(job).ranges
    whole = find_whole_names(job)
    return {
        tensor.name: stated.get(tensor.name) or (BYTES if tensor.name in whole else UNIT)
        for tensor in single.inputs
        if "float" in tensor.stated_dtype or tensor.name in stated
    }


def find_whole_names(job: Job) -> frozenset[str]:
    return frozenset({*NETWORK_VALUES.read(job).whole, *find_stated_integers(job)})


def find_stated_integers(job: Job) -> dict[str, Range]:
    return {n: e.integers for n, e in job.recipe.inputs.items() if e.integers is not None}


def find_indices(job: Job, interface: ModelInterface) -> dict[str, Range]:
    """Return the limits of integer inputs that are indices from the start or the end of an axis."""
    stated = NETWORK_VALUES.read(job).ranges
    integers = (t.name for t in interface.inputs if "int" in t.stated_dtype)
    return {name: (-1 - stated[name][1], stated[name][1]) for name in integers if name in stated}


def read_batch_layout(job: Job, interface: ModelInterface) -> BatchLayout:
    """Return the samples per inference, and the axis of the samples in each output."""
    if job.has_stage("batch"):
        return BATCH_LAYOUT.read(job)
    return BatchLayout(1, tuple(0 for _ in interface.outputs))


def run_reference(
    job: Job, interface: ModelInterface, samples: Sequence[Sample], stage: str = NETWORK_STAGE
) -> ReferenceOutputs:
    """Return the compiled network's reference outputs for samples.

    If a device replaced regions of the network, the new regions are the reference.
    """
    lowered = LOWERED_MODEL.path(job)
    if stage == NETWORK_STAGE and lowered.is_file():
        return run_lowered(job, interface, samples, lowered.read_bytes())
    model = job.folder(stage) / f"model.{interface.format}"
    reference = FORMATS[interface.format].load_reference()
    with load_custom_operators(job.recipe):
        return reference.run_reference(model.read_bytes(), samples, interface.states)


def read_reference(job: Job, count: int) -> ReferenceOutputs:
    """Return the outputs of the stage ``reference`` for the first ``count`` samples."""
    arrays = REFERENCE_OUTPUTS.read(job)
    columns = [arrays[f"output_{i}"] for i in range(len(arrays))]
    outputs = [[column[sample] for column in columns] for sample in range(count)]
    return ReferenceOutputs(REFERENCE.read(job).runtime, outputs)


def run_in_float64(
    job: Job, interface: ModelInterface, samples: Sequence[Sample]
) -> ReferenceOutputs | None:
    """Return the outputs of the network in float64, or None if no runtime computes them.

    Raises UserError if the runtime rejects the network.
    """
    module = FORMATS[interface.format].load_in_float64()
    if module is None or LOWERED_MODEL.path(job).is_file():
        return None
    model = job.folder(NETWORK_STAGE) / f"model.{interface.format}"
    return module.run_reference(model.read_bytes(), samples, interface.states)


def run_lowered(
    job: Job, interface: ModelInterface, samples: Sequence[Sample], model: bytes
) -> ReferenceOutputs:
    """Return TVM's outputs of the lowered regions for whole batches."""
    layout = read_batch_layout(job, interface)
    names = PARTITION.read(job).inputs
    batches = [
        dict(zip(names, sample.values(), strict=True))
        for sample in join_samples(samples, layout.size)
    ]
    reference = FORMATS["relax"].load().run_reference(model, batches)
    outputs = split_outputs(reference.outputs, layout.size, layout.output_axes)
    return ReferenceOutputs(f"{reference.runtime}, on the stand-ins of its devices", outputs)


def pack_first_sample(
    interface: ModelInterface, sample: Sample, outputs: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    inputs = {f"input_{i}": sample[t.name] for i, t in enumerate(interface.inputs)}
    return inputs | {f"output_{i}": array for i, array in enumerate(outputs)}
