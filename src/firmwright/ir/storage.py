"""Tensors as they lie in memory of a device with a layout of its own, and back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.tensors import Storage

Array = npt.NDArray[Any]


def to_storage(array: Array, storage: Storage | None) -> Array:
    """Return a tensor's bytes as they lie in memory, one after the other; padding is 0."""
    if storage is None:
        return array
    widths = [(0, after - before) for before, after in zip(array.shape, storage.shape, strict=True)]
    rows = np.pad(array, widths).reshape(-1)
    return np.pad(swap_bytes(rows, storage.word), (0, storage.spare))


def from_storage(array: Array, storage: Storage | None, shape: tuple[int, ...]) -> Array:
    """Return the tensor of this shape whose bytes lie in ``array``, whatever its padding holds."""
    if storage is None:
        return array.reshape(shape)
    padded = swap_bytes(array.reshape(-1)[: prod(storage.shape)], storage.word)
    padded = padded.reshape(storage.shape)
    return np.ascontiguousarray(padded[tuple(slice(length) for length in shape)])


def swap_bytes(array: Array, word: int) -> Array:
    return array.reshape(-1, word)[:, ::-1].reshape(array.shape)
