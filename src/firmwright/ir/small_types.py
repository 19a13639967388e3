"""Converts numbers of 8, 4 or 2 bits whose types C99 lacks; each is stored in one byte.

An integer is stored as its value, a float as its bit pattern in the low bits. Strings, which have
no type of fixed size in C99, are stored in 32 bytes each, as the last axis. At least one zero
follows the bytes of a string, like the result of ``strncpy(x, string, 32)``.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError
from firmwright.ir.tensors import STORED_AS, STRING, Tensor

Array = npt.NDArray[Any]


def is_small_integer(dtype: str) -> bool:
    return dtype in STORED_AS and "int" in dtype


def is_small_float(dtype: str) -> bool:
    return dtype in STORED_AS and "float" in dtype


def count_bits(dtype: str) -> int:
    """Return the number of bits of a number: 8, 4 or 2."""
    return int(re.sub(r"\D*(\d).*", r"\1", dtype))


def find_limits(dtype: str) -> ml_dtypes.iinfo:
    """Return the smallest and the largest integer of a type, which may have fewer than 8 bits."""
    return ml_dtypes.iinfo(np.dtype(dtype))  # type: ignore[no-untyped-call]


def to_bytes(array: Array) -> Array:
    """Return the stored form of an array of such numbers or of strings, other arrays unchanged."""
    if are_strings(array):
        return encode_strings(array)
    dtype = array.dtype.name
    if is_small_integer(dtype):
        return array.astype(STORED_AS[dtype])
    return array.view(STORED_AS[dtype]) if dtype in STORED_AS else array


def from_bytes(array: Array, dtype: str) -> Array:
    """Return stored numbers in a type of ml_dtypes, or strings as objects.

    The bits of a byte above the bits of the number are ignored.
    """
    if dtype == STRING:
        return decode_strings(array)
    if is_small_integer(dtype):
        return array.astype(dtype)
    return (array.view("uint8") & np.uint8(2 ** count_bits(dtype) - 1)).view(dtype)


def to_model_type(array: Array, tensor: Tensor) -> Array:
    """Return a tensor's data in the type that the tensor has in the model."""
    return array if tensor.model_dtype is None else from_bytes(array, tensor.model_dtype)


STRING_BYTES = 32


def are_strings(array: Array) -> bool:
    return array.dtype.kind in "OSU"


def encode_strings(array: Array) -> Array:
    """Return uint8 (..., STRING_BYTES) for strings, in UTF-8.

    Raises UserError for a string that is too long or contains a zero.
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
    """Return the strings that uint8 (..., STRING_BYTES) contains, as objects."""
    stored = np.ascontiguousarray(array).view(f"S{STRING_BYTES}")[..., 0]
    texts = np.empty(stored.shape, object)
    for position, text in np.ndenumerate(stored):
        texts[position] = text.decode(errors="replace")
    return texts
