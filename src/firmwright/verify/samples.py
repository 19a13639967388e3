"""Input samples of a run: seeded random ones, or the data that the recipe names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from firmwright.data import DataFile, DataSource
from firmwright.data.arrays import dequantize_array, quantize_array
from firmwright.data.samples import Column, DataFolders, Sample, read_samples
from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor


def random_samples(inputs: Sequence[Tensor], count: int, seed: int) -> list[Sample]:
    """Draw integers over their whole range, floats from [0, 1); the same for the same seed."""
    columns = {}
    for index, tensor in enumerate(inputs):
        generator = np.random.default_rng([seed, index])
        shape = (count, *tensor.shape)
        if tensor.dtype == "bool":
            columns[tensor.name] = generator.integers(0, 2, shape).astype(bool)
        elif "float" in tensor.dtype:
            columns[tensor.name] = generator.random(shape).astype(tensor.dtype)
        else:
            limits = np.iinfo(tensor.dtype)
            drawn = generator.integers(limits.min, limits.max, shape, tensor.dtype, endpoint=True)
            columns[tensor.name] = drawn
    return [{n: np.asarray(column[i]) for n, column in columns.items()} for i in range(count)]


def read_recipe_columns(
    inputs: Sequence[Tensor],
    given: str | Mapping[str, DataSource],
    place: DataFolders,
    count: int | None,
    least: int | None = None,
) -> dict[str, Column]:
    """Read the first ``count`` samples (None: all of them) that a recipe names, by input.

    Where the recipe has fewer samples, ``least`` of them are enough. ``given`` is one ``.npz``
    with an array for each input, one ``.npy`` for a network with one input, or a source for each
    input. Raises UserError with everything that is wrong.
    """
    if isinstance(given, str):
        if not given.endswith(".npz") and len(inputs) > 1:
            names = ", ".join(t.name for t in inputs)
            path = place.folder / given
            raise UserError(f"{path}: one array for several inputs ({names}); use an .npz")
        given = {t.name: DataSource("arrays", (DataFile(given),)) for t in inputs}
    return read_samples(inputs, given, place, count, least)


def repeat_samples(columns: Mapping[str, Column], count: int) -> dict[str, Column]:
    """Return ``count`` samples; where there are fewer, repeat them from the first on."""
    held = min(count, *(len(c.arrays) for c in columns.values()))
    turns = [i % held for i in range(count)]
    return {
        name: Column([c.arrays[i] for i in turns], [c.origins[i] for i in turns])
        for name, c in columns.items()
    }


def to_samples(columns: Mapping[str, Column], count: int) -> list[Sample]:
    """Return the arrays of ``columns`` by sample."""
    return [{name: column.arrays[i] for name, column in columns.items()} for i in range(count)]


def requantize_columns(
    columns: Mapping[str, Column], before: Sequence[Tensor], after: Sequence[Tensor]
) -> dict[str, Column]:
    """Convert the data of inputs from the tensors ``before`` to the tensors ``after``."""
    result = dict(columns)
    for old, new in zip(before, after, strict=True):
        if old != new:
            real = [dequantize_array(array, old) for array in columns[old.name].arrays]
            arrays = real if new.scale is None else [quantize_array(array, new) for array in real]
            result[old.name] = replace(columns[old.name], arrays=arrays)
    return result
