"""Converts tensors to and from the memory layout of a device with a custom layout."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.tensors import Storage

Array = npt.NDArray[Any]


def to_storage(array: Array, storage: Storage | None) -> Array:
    """Return a tensor's bytes in their order in memory, as a flat array. Padding is 0.

    The tensor is unchanged if ``storage`` is None.
    """
    if storage is None:
        return array
    widths = [(0, after - before) for before, after in zip(array.shape, storage.shape, strict=True)]
    rows = np.pad(array, widths).reshape(-1)
    return np.pad(swap_bytes(rows, storage.word), (0, storage.spare))


def from_storage(array: Array, storage: Storage | None, shape: tuple[int, ...]) -> Array:
    """Return the tensor of this shape from its bytes in memory. The padding may have any value."""
    if storage is None:
        return array.reshape(shape)
    padded = swap_bytes(array.reshape(-1)[: prod(storage.shape)], storage.word)
    padded = padded.reshape(storage.shape)
    return np.ascontiguousarray(padded[tuple(slice(length) for length in shape)])


def swap_bytes(array: Array, word: int) -> Array:
    return array.reshape(-1, word)[:, ::-1].reshape(array.shape)
