"""Input samples: from files of the user, or seeded random ones."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError, did_you_mean
from firmwright.models import Tensor

Array = npt.NDArray[Any]
Sample = Mapping[str, Array]


def random_samples(inputs: Sequence[Tensor], count: int, seed: int) -> list[Sample]:
    """Draw integers over their whole range, floats from [0, 1); the same for the same seed."""
    columns = {}
    for index, tensor in enumerate(inputs):
        generator = np.random.default_rng([seed, index])
        shape = (count, *tensor.shape)
        if tensor.dtype == "bool":
            columns[tensor.name] = generator.integers(0, 2, shape).astype(bool)
        elif tensor.dtype.startswith("float"):
            columns[tensor.name] = generator.random(shape).astype(tensor.dtype)
        else:
            limits = np.iinfo(tensor.dtype)
            drawn = generator.integers(limits.min, limits.max, shape, tensor.dtype, endpoint=True)
            columns[tensor.name] = drawn
    return rows(columns, count)


def stored_samples(
    inputs: Sequence[Tensor], files: Mapping[str, Path] | Path, count: int
) -> list[Sample]:
    """Take the first ``count`` samples of arrays that have a leading sample axis.

    ``files`` is one ``.npz`` with an array an input, one ``.npy`` for a network with one input,
    or a ``.npy`` an input. Raises UserError naming file, array, and what was expected.
    """
    columns = {}
    for tensor in inputs:
        array, label = find_array(tensor, inputs, files)
        columns[tensor.name] = checked(array, tensor, label, count)
    return rows(columns, count)


def rows(columns: Mapping[str, Array], count: int) -> list[Sample]:
    """Return the samples one by one; also a sample of a scalar is an array."""
    return [{n: np.asarray(column[i]) for n, column in columns.items()} for i in range(count)]


def find_array(
    tensor: Tensor, inputs: Sequence[Tensor], files: Mapping[str, Path] | Path
) -> tuple[Array, str]:
    """Return the input's array and what to call it in a message."""
    if isinstance(files, Mapping):
        if tensor.name not in files:
            hint = did_you_mean(tensor.name, files)
            raise UserError(f"run.inputs: no file for the network's input '{tensor.name}'{hint}")
        path = files[tensor.name]
        return load_npy(path), str(path)
    if files.suffix != ".npz":
        if len(inputs) > 1:
            names = ", ".join(t.name for t in inputs)
            raise UserError(f"{files}: one array for several inputs ({names}); use an .npz")
        return load_npy(files), str(files)
    try:
        with np.load(files, allow_pickle=False) as archive:
            if tensor.name in archive:
                return archive[tensor.name], f"{files}[{tensor.name}]"
            known = ", ".join(sorted(archive.files))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{files}: not an .npz of plain arrays: {error}") from None
    raise UserError(f"{files}: no array for the network's input '{tensor.name}' (it has: {known})")


def load_npy(path: Path) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not an .npy of a plain array: {error}") from None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path}: not an .npy of one array")
    return array


def checked(array: Array, tensor: Tensor, label: str, count: int) -> Array:
    """Check type, size and number of samples; give each sample the input's shape."""
    if array.dtype != np.dtype(tensor.dtype):
        raise UserError(f"{label}: is {array.dtype}, the input '{tensor.name}' {tensor.dtype}")
    samples = len(array) if array.ndim else 0
    if samples == 0 or array.size != samples * tensor.elements:
        raise UserError(
            f"{label}: has shape {list(array.shape)}; expected a leading sample axis and then "
            f"{list(tensor.shape)} for the input '{tensor.name}'"
        )
    if count > samples:
        raise UserError(f"{label}: holds {samples} samples, run.samples asks for {count}")
    return array[:count].reshape(count, *tensor.shape)
