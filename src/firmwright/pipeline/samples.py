"""Samples that a recipe names, for the stages that read some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firmwright.recipe.quantization import Inputs

from .job import Job

if TYPE_CHECKING:
    from firmwright.data.samples import Column, Sample
    from firmwright.ir.tensors import ModelInterface, Tensor


def read_columns(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None, least: int | None = None
) -> dict[str, Column]:
    """Return the first ``count`` samples, or all, by input; ``least`` of them will do."""
    from firmwright.verify.samples import read_recipe_columns

    return read_recipe_columns(inputs, given, job.data_folders, count, least)


def read_network_columns(
    job: Job, interface: ModelInterface, given: Inputs, count: int | None, least: int | None = None
) -> dict[str, Column]:
    """Return samples as the network takes them that is compiled, for a batch of 1.

    The recipe's integers are what its model takes. If that was quantized to other grids, they are
    put on those.
    """
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.verify.samples import requantize_columns

    source = read_record(job.folder("model") / "model.json", ModelInterface)
    if all(t.scale is None for t in source.inputs):
        return read_columns(job, interface.inputs, given, count, least)
    found = read_columns(job, source.inputs, given, count, least)
    return requantize_columns(found, source.inputs, interface.inputs)


def read_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return the first ``count`` samples, or all; UserError for any that is not fit."""
    from firmwright.quantize.samples import refuse_not_finite
    from firmwright.verify.samples import to_samples

    columns = read_columns(job, inputs, given, count)
    samples = to_samples(columns, min(len(c.arrays) for c in columns.values()))
    refuse_not_finite(samples, columns)
    return samples


def read_real_samples(
    job: Job, inputs: Sequence[Tensor], given: Inputs, count: int | None
) -> list[Sample]:
    """Return samples as real numbers, also those for a quantized model's inputs of integers."""
    from firmwright.data.arrays import dequantize_array

    tensors = {t.name: t for t in inputs}
    return [
        {name: dequantize_array(array, tensors[name]) for name, array in sample.items()}
        for sample in read_samples(job, inputs, given, count)
    ]
