"""Converts numbers of 8, 4 or 2 bits whose types C99 lacks. One byte stores each number.

An integer is stored as its value, a float as its bit pattern in the low bits. Strings have no C99
type of fixed size. :mod:`firmwright.ir.strings` describes their storage.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from firmwright.ir.strings import are_strings, decode_strings, encode_strings
from firmwright.ir.tensors import STORED_AS, STRING, Tensor

Array = npt.NDArray[Any]


def is_small_integer(dtype: str) -> bool:
    return dtype in STORED_AS and "int" in dtype


def is_small_float(dtype: str) -> bool:
    return dtype in STORED_AS and "float" in dtype


def count_bits(dtype: str) -> int:
    return int(re.sub(r"\D*(\d).*", r"\1", dtype))


def find_limits(dtype: str) -> ml_dtypes.iinfo:
    """Return the smallest and the largest integer of a type, which may have fewer than 8 bits."""
    return ml_dtypes.iinfo(np.dtype(dtype))  # type: ignore[no-untyped-call]


def to_bytes(array: Array) -> Array:
    """Return the stored form of small numbers or strings. Other arrays are unchanged."""
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
    return array if tensor.model_dtype is None else from_bytes(array, tensor.model_dtype)
