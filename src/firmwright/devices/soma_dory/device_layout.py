"""Defines the memory layout of activations for DIANA's digital accelerator.

The last axis is the width of an image, or the channels of a vector. The layout pads the last axis
to whole rows of 16 bytes, because the accelerator computes 16 columns at a time. The accelerator
reads the first byte of a 32-bit word as the last byte, so bytes are reversed within each word. The
accelerator has no number for the width without padding, and reads the padding of a row as data.
Therefore :data:`ZEROS` columns of the padding are 0. Sources: DORY's ``adjust_dimensions``, HTVM's
layout transform, and diana-driver.md.
"""

from __future__ import annotations

from firmwright.ir.layer import Array
from firmwright.ir.storage import swap_bytes
from firmwright.ir.tensors import Storage

ROW = 16
"""The length of a row, in bytes, is a multiple of this number."""
PIECE = 32
"""The length of a transfer on the chip, in bytes, is a multiple of this number."""
SPARE = PIECE - ROW
"""The number of bytes after a tensor that the last transfer to the tensor may overwrite."""
ZEROS = 3
"""The number of zero columns after a row, which is half of the widest kernel."""
WORD = 4
"""The number of bytes whose order is reversed."""


def device_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape (N, C, H, W) or (N, C) in device layout, with a padded last length."""
    return (*shape[:-1], -(-shape[-1] // ROW) * ROW)


def device_storage(shape: tuple[int, ...]) -> Storage:
    return Storage(device_shape(shape), WORD, SPARE)


def reverse_device_words(array: Array) -> Array:
    return swap_bytes(array, WORD)
