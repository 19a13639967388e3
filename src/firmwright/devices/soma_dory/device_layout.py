"""How activations lie in memory that DIANA's digital accelerator reads and writes.

The last axis (the width of an image, the channels of a vector) is padded to whole rows of 16
bytes, for the accelerator computes 16 columns at a time; and the accelerator takes the first byte
of a 32-bit word for the last, so that bytes are reversed within each word. It has no number for
the true width: what pads a row it takes for data, so :data:`ZEROS` columns there are 0. Sources:
DORY's ``adjust_dimensions``, HTVM's layout transform, and diana-driver.md.
"""

from __future__ import annotations

from firmwright.ir.layer import Array
from firmwright.ir.storage import swap_bytes
from firmwright.ir.tensors import Storage

ROW = 16
"""Bytes: rows are multiples of it."""
PIECE = 32
"""Bytes: the chip's transfers are multiples of it."""
SPARE = PIECE - ROW
"""Bytes behind a tensor, which the last transfer to it may overwrite."""
ZEROS = 3
"""Columns behind a row's last that are 0: half of the widest kernel reads no further."""
WORD = 4
"""Bytes whose order is reversed."""


def device_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in device layout: (N, C, H, W) or (N, C), the last length padded to 16."""
    return (*shape[:-1], -(-shape[-1] // ROW) * ROW)


def device_storage(shape: tuple[int, ...]) -> Storage:
    return Storage(device_shape(shape), WORD, SPARE)


def reverse_device_words(array: Array) -> Array:
    return swap_bytes(array, WORD)
