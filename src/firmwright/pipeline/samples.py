"""The samples that a recipe names, and what the model's own runtime makes of them."""

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
from firmwright.recipe.quantization import Inputs
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
from .options import select_run_inputs


def read_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return the first ``count`` samples, or all; UserError for any that is not fit."""
    columns = read_columns(inputs, given, job.data_folders, count)
    samples = to_samples(columns, min(len(c.arrays) for c in columns.values()))
    refuse_not_finite(samples, columns)
    refuse_not_whole(columns, find_stated_integers(job))
    return samples


def read_real_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return samples as real numbers, also those for a quantized model's inputs of integers."""
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
    """Return samples as the network takes them that is compiled, for a batch of 1.

    The recipe's integers are what its model takes. If that was quantized to other grids, they are
    put on those.
    """
    source = MODEL_INTERFACE.read(job)
    if all(t.scale is None for t in source.inputs):
        columns = read_columns(interface.inputs, given, job.data_folders, count, least)
        refuse_not_whole(columns, find_stated_integers(job))
        refuse_not_whole(columns, find_indices(job, interface), "that index beyond an axis")
        return columns
    found = read_columns(source.inputs, given, job.data_folders, count, least)
    return requantize_columns(found, source.inputs, interface.inputs)


def read_run_columns(job: Job, interface: ModelInterface, count: int) -> dict[str, Column]:
    """Return ``count`` samples for a batch of 1 from the recipe's data; nothing where it has none.

    One for each batch has to be there; where they do not fill the batches, they come in turn.
    """
    given = select_run_inputs(job)
    if given is None:
        return {}
    found = read_network_columns(job, interface, given, count, job.recipe.run.samples)
    return repeat_samples(found, count)


def read_run_samples(
    job: Job, single: ModelInterface, count: int
) -> tuple[dict[str, Column], list[Sample]]:
    """Return ``count`` samples for a batch of 1, and the recipe's data if they are of it."""
    data = read_run_columns(job, single, count)
    if data:
        return data, to_samples(data, count)
    ranges = find_drawn_ranges(job, single)
    whole = find_whole_names(job)
    return data, random_samples(single.inputs, count, job.recipe.run.seed, ranges, whole)


def find_drawn_ranges(job: Job, single: ModelInterface) -> dict[str, Range]:
    """Return the limits of random samples, by input, that the model states, else 0 and 1 of floats.

    Where floats stand for integers, these are bytes.
    """
    stated = NETWORK_VALUES.read(job).ranges
    whole = find_whole_names(job)
    return {
        tensor.name: stated.get(tensor.name) or (BYTES if tensor.name in whole else UNIT)
        for tensor in single.inputs
        if "float" in tensor.stated_dtype or tensor.name in stated
    }


def find_whole_names(job: Job) -> frozenset[str]:
    """Return the inputs whose floats stand for integers."""
    return frozenset({*NETWORK_VALUES.read(job).whole, *find_stated_integers(job)})


def find_stated_integers(job: Job) -> dict[str, Range]:
    """Return the limits of the inputs whose floats are whole numbers, as the recipe says."""
    return {n: e.integers for n, e in job.recipe.inputs.items() if e.integers is not None}


def find_indices(job: Job, interface: ModelInterface) -> dict[str, Range]:
    """Return the limits of the integer inputs that count elements of an axis, also from its end."""
    stated = NETWORK_VALUES.read(job).ranges
    integers = (t.name for t in interface.inputs if "int" in t.stated_dtype)
    return {name: (-1 - stated[name][1], stated[name][1]) for name in integers if name in stated}


def read_batch_layout(job: Job, interface: ModelInterface) -> BatchLayout:
    """Return how many samples an inference takes, and along which axis each output holds them."""
    if job.has_stage("batch"):
        return BATCH_LAYOUT.read(job)
    return BatchLayout(1, tuple(0 for _ in interface.outputs))


def run_reference(
    job: Job, interface: ModelInterface, samples: Sequence[Sample], stage: str = NETWORK_STAGE
) -> ReferenceOutputs:
    """Return what the model's own runtime makes of samples: of the network as it is compiled.

    Where a device has put other regions in the place of the network's, these are the reference.
    """
    lowered = LOWERED_MODEL.path(job)
    if stage == NETWORK_STAGE and lowered.is_file():
        return run_lowered(job, interface, samples, lowered.read_bytes())
    model = job.folder(stage) / f"model.{interface.format}"
    return (
        FORMATS[interface.format]
        .load_reference()
        .run_reference(model.read_bytes(), samples, interface.states)
    )


def read_reference(job: Job, count: int) -> ReferenceOutputs:
    """Return what the stage ``reference`` made of the run's ``count`` samples."""
    arrays = REFERENCE_OUTPUTS.read(job)
    columns = [arrays[f"output_{i}"] for i in range(len(arrays))]
    outputs = [[column[sample] for column in columns] for sample in range(count)]
    return ReferenceOutputs(REFERENCE.read(job).runtime, outputs)


def run_in_float64(
    job: Job, interface: ModelInterface, samples: Sequence[Sample]
) -> ReferenceOutputs | None:
    """Return what the network computes in float64; None where nothing evaluates it so.

    UserError where what does refuses it.
    """
    module = FORMATS[interface.format].load_in_float64()
    if module is None or LOWERED_MODEL.path(job).is_file():
        return None
    model = job.folder(NETWORK_STAGE) / f"model.{interface.format}"
    return module.run_reference(model.read_bytes(), samples, interface.states)


def run_lowered(
    job: Job, interface: ModelInterface, samples: Sequence[Sample], model: bytes
) -> ReferenceOutputs:
    """Return what TVM makes of samples with the regions as they are lowered, for whole batches."""
    layout = read_batch_layout(job, interface)
    names = PARTITION.read(job).inputs
    batches = [
        dict(zip(names, sample.values(), strict=True))
        for sample in join_samples(samples, layout.size)
    ]
    found = FORMATS["relax"].load().run_reference(model, batches)
    outputs = split_outputs(found.outputs, layout.size, layout.output_axes)
    return ReferenceOutputs(f"{found.runtime}, on the stand-ins of its devices", outputs)


def pack_first_sample(
    interface: ModelInterface, sample: Sample, outputs: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return what the firmware read first and what it wrote: ``input_0`` …, ``output_0`` …"""
    inputs = {f"input_{i}": sample[t.name] for i, t in enumerate(interface.inputs)}
    return inputs | {f"output_{i}": array for i, array in enumerate(outputs)}
