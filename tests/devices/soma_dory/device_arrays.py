"""Arrays in the memory layout that DIANA's digital accelerator reads and writes."""

from __future__ import annotations

from firmwright.devices.soma_dory.device_layout import device_shape, device_storage
from firmwright.ir.layer import Array
from firmwright.ir.storage import from_storage, to_storage


def to_device(array: Array) -> Array:
    """Return an array of bytes in device layout, with padding 0, without the bytes after it."""
    shape = device_shape(array.shape)
    return in_memory(array)[: -device_storage(array.shape).spare].reshape(shape)


def in_memory(array: Array) -> Array:
    """Return all bytes that an array of bytes occupies in device layout."""
    return to_storage(array, device_storage(array.shape))


def from_device(array: Array, shape: tuple[int, ...]) -> Array:
    """Return the array of this shape that an array of bytes in device layout contains."""
    return from_storage(array, device_storage(shape), shape)
