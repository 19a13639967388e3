"""Arrays as they lie in memory that DIANA's digital accelerator reads and writes."""

from __future__ import annotations

from firmwright.ir.storage import from_storage, to_storage
from firmwright.targets.soma_dory.device_layout import device_storage
from firmwright.targets.soma_dory.layer import Array


def to_device(array: Array) -> Array:
    """Return an array of bytes in device layout, its padding 0."""
    return to_storage(array, device_storage(array.shape))


def from_device(array: Array, shape: tuple[int, ...]) -> Array:
    """Return the array of this shape that lies in an array of bytes in device layout."""
    return from_storage(array, device_storage(shape), shape)
