"""Reads arrays from files, and converts the arrays to the type and shape of an input."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError, explain_failure
from firmwright.ir.small_types import (
    find_limits,
    is_small_float,
    to_bytes,
    to_model_type,
)
from firmwright.ir.strings import are_strings
from firmwright.ir.tensors import STRING, Tensor

UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,  # a member of an archive is encrypted, or compressed with an unknown method
    TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions of NumPy if a file has no array, or if an array does not fit into memory."""

Array = npt.NDArray[Any]
OutputsByName = dict[str, Array]
"""Maps the names of a network's outputs to real numbers. The first axis is the sample axis."""


def load_npy(path: Path) -> Array:
    """Return the array of an ``.npy`` file. Raises UserError if the file is not one plain array."""
    try:
        array = np.load(path, allow_pickle=False)
    except UNREADABLE as error:
        raise UserError(
            f"{path}: not an .npy of a plain array: {error}; write it with numpy.save"
        ) from None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path}: not an .npy of one array; write it with numpy.save")
    return array


def load_npz(path: Path, names: Sequence[str], role: str = "") -> dict[str, Array]:
    """Return the named arrays of an ``.npz`` file. Raises UserError if an array is missing.

    ``role`` describes the arrays in the message. The default is the network's input.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in names if name in archive}
            known = ", ".join(sorted(archive.files))
    except UNREADABLE as error:
        raise UserError(
            f"{path}: not an .npz of plain arrays: {error}; write it with numpy.savez"
        ) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise UserError(f"{path}: '{name}' is not an array; write it with numpy.savez")
    missing = [name for name in names if name not in arrays]
    if missing:
        raise UserError(
            "\n".join(
                f"{path}: no array for {role} (it has: {known}); save the array as '{name}'"
                if role
                else f"{path}: no array for the network's input '{name}' (it has: {known}); save "
                "each array under the name of its input"
                for name in missing
            )
        )
    return arrays


def load_raw(path: Path, tensor: Tensor) -> Array:
    """Return one sample in the input's shape. The file has little-endian bytes."""
    with explain_failure(f"{path}: cannot be read"):
        data = path.read_bytes()
    if len(data) != tensor.bytes:
        raise UserError(
            f"{path}: the file has {len(data):,} bytes; expected {tensor.bytes:,} bytes, one "
            f"sample of the input '{tensor.name}' ({tensor.dtype} {list(tensor.shape)}); "
            "write the file with this type and shape"
        )
    kind = np.dtype(tensor.dtype)
    little = np.frombuffer(data, kind.newbyteorder("<"))
    return little.astype(kind).reshape(1, *tensor.shape)


def check_array(array: Array, tensor: Tensor, label: str) -> Array:
    """Check the type, size and values of an array. Return (samples, *the input's shape).

    Float32 numbers are quantized if the input is an integer with a scale. Raises UserError if the
    type differs or a value is NaN. The array has a sample axis, followed by the input's axes. Axes
    of length 1 may be missing, and the input's axes may be joined to one axis.
    """
    real = array.dtype == np.float32 and tensor.scale is not None and tensor.dtype != "float32"
    if tensor.model_dtype is not None and array.dtype != np.float32:
        array = check_bytes(array, tensor, label)
    if array.dtype != np.dtype(tensor.dtype) and not real:
        raise UserError(
            f"{label}: is {array.dtype}; the input '{tensor.name}' is {tensor.stated_dtype}: save "
            f"it with .astype('{tensor.stated_dtype}')"
        )
    samples = len(array) if array.ndim else 0
    if samples == 0 or not has_same_axes(array.shape[1:], tensor):
        raise UserError(
            f"{label}: has shape {list(array.shape)}; expected a leading sample axis and then "
            f"{list(tensor.shape)} for the input '{tensor.name}': reshape the array"
        )
    shaped = array.reshape(samples, *tensor.shape)
    if array.dtype.kind == "f" and np.isnan(array).any():
        bad = np.isnan(shaped.reshape(samples, -1)).any(axis=1)
        numbers = ", ".join(str(i) for i in np.flatnonzero(bad)[:10])
        count = int(np.count_nonzero(bad))
        problem = f"NaN in {count} of {samples} samples (sample {numbers})"
        raise UserError(f"{label}: {problem}; remove or correct them")
    return quantize_array(shaped, tensor) if real else shaped


def check_bytes(array: Array, tensor: Tensor, label: str) -> Array:
    """Return data as the firmware stores it: types that C99 lacks are stored as other types.

    NumPy reads these types from an ``.npy`` file as untyped bytes. Raises UserError if stored
    integers exceed the type's limits.
    """
    dtype = tensor.stated_dtype
    if dtype == STRING:
        return to_bytes(array) if are_strings(array) else array
    if array.dtype.name == dtype or array.dtype.str.endswith("V1"):
        return to_bytes(array.view(dtype))
    if array.dtype.name == tensor.dtype and not is_small_float(dtype):
        limits = find_limits(dtype)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise UserError(
                f"{label}: the input '{tensor.name}' is {dtype}, of {limits.min} to "
                f"{limits.max}; found {array.min()} to {array.max()}; scale or clip the samples"
            )
    return array


def has_same_axes(shape: Sequence[int], tensor: Tensor) -> bool:
    """Return whether a sample has one flat axis, or the input's axes without axes of length 1."""
    axes = [length for length in shape if length != 1]
    return axes in ([n for n in tensor.shape if n != 1], [tensor.elements])


def quantize_array(array: Array, tensor: Tensor) -> Array:
    """Return the integers of a quantized input for real numbers, rounded half to even."""
    limits = find_limits(tensor.stated_dtype)
    steps = np.rint(array / np.float32(tensor.scale or 1)) + float(tensor.zero_point or 0)
    return np.clip(steps, limits.min, limits.max).astype(tensor.dtype)


def dequantize_array(array: Array, tensor: Tensor) -> Array:
    """Return integers with a scale, and small floats, as float32. Other arrays are unchanged."""
    if is_small_float(tensor.stated_dtype):
        return to_model_type(array, tensor).astype("float32")
    if tensor.scale is None:
        return array
    return np.float32(tensor.scale) * (array.astype("float32") - np.float32(tensor.zero_point or 0))
