"""Stores strings in 32 bytes, as the last axis, because a C99 string has no fixed size.

At least one zero follows the bytes of a string, as after ``strncpy(x, string, 32)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError

Array = npt.NDArray[Any]


STRING_BYTES = 32


def are_strings(array: Array) -> bool:
    return array.dtype.kind in "OSU"


def encode_strings(array: Array) -> Array:
    """Return strings in UTF-8 as uint8 (..., STRING_BYTES).

    Raises UserError if a string is too long or contains a zero.
    """
    texts = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1).tolist()]
    for text in texts:
        if len(text) >= STRING_BYTES or b"\0" in text:
            raise UserError(
                f"the string {text.decode(errors='replace')!r} has {len(text)} bytes; a string "
                f"of a network has at most {STRING_BYTES - 1}, without bytes of 0: shorten it"
            )
    stored = np.array(texts, f"S{STRING_BYTES}").view("uint8")
    return stored.reshape(*array.shape, STRING_BYTES)


def decode_strings(array: Array) -> Array:
    """Return the strings in uint8 (..., STRING_BYTES) as objects."""
    stored = np.ascontiguousarray(array).view(f"S{STRING_BYTES}")[..., 0]
    texts = np.empty(stored.shape, object)
    for position, text in np.ndenumerate(stored):
        texts[position] = text.decode(errors="replace")
    return texts
