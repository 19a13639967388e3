"""Implements the accelerator's fixed-point arithmetic on int64 arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firmwright_ethos_u.memory import Array, Memory
from firmwright_ethos_u.stream import Accelerator, Operation

DOUBLE, NATURAL = 0, 2
"""The rounding modes, which Vela calls TFL and NATURAL."""

WORD = 31
TABLE_BYTES, TABLES_BYTES = 256, 2048
TABLE, TABLE_END = 16, 24
FORCED_TYPES = {2: np.uint8, 3: np.int8, 5: np.int16}
"""The value ranges of an activation that do not depend on the output's type."""


def rounding(operation: Operation) -> int:
    mode = operation.fields("OFM_PRECISION")["rounding"]
    if mode not in (DOUBLE, NATURAL):
        raise operation.reject(f"has an unsupported rounding mode ({mode})")
    return mode


def rescale(values: Array, scale: Array | int, shift: Array | int, mode: int) -> NDArray[np.int64]:
    """Return `values * scale / 2**shift`, rounded.

    NATURAL rounds half up. DOUBLE first rounds half up at the bit `min(shift, 31)`, and then rounds
    half away from zero, as in TFLite's reference kernels.
    """
    product = multiply(values, scale)
    if mode == DOUBLE:
        first = np.minimum(shift, WORD)
        product = away_from_zero(half_up(product, first), shift - first)
    else:
        product = half_up(product, shift)
    return np.asarray(product, np.int64)


def multiply(values: Array, factor: Array | int) -> Array:
    """Return the exact product. Products of more than 63 bits are Python integers."""
    peak = int(np.max(np.abs(values), initial=0)) * int(np.max(np.abs(factor)))
    if peak >= 1 << 62:
        return values.astype(object) * factor
    return values * factor


def half_up(values: Array, shift: Array | int) -> Array:
    """Divide by a power of two, and round half up."""
    return np.asarray((values + half_unit(shift)) >> shift)


def away_from_zero(values: Array, shift: Array | int) -> Array:
    """Divide by a power of two, and round half away from zero."""
    rounded: Array = abs(values) + half_unit(shift)
    return np.asarray(np.sign(values) * (rounded >> shift))


def half_unit(shift: Array | int) -> Array:
    """Return half of `2**shift`, and 0 for the shift 0. The maximum shift is 63."""
    # The maximum of int64 is less than `1 << 63`.
    return np.where(np.asarray(shift) > 0, 1 << np.maximum(np.asarray(shift, np.int64) - 1, 0), 0)


def finish(
    operation: Operation, memory: Memory, accelerator: Accelerator, values: Array, dtype: np.dtype
) -> Array:
    """Add the zero point, apply the activation, and return values of the output's type.

    Raises StreamError if an output of 32 bits overflows, because the hardware's behavior is
    unknown.
    """
    zero_point = operation.signed("OFM_ZERO_POINT")
    values = values + (zero_point if dtype.kind == "i" else zero_point & 0xFFFF)
    function = operation.fields("ACTIVATION")
    kind, clip = function["type"], function["act_clip_range"]
    if clip not in (0, *FORCED_TYPES) or (kind and not TABLE <= kind < TABLE_END):
        raise operation.reject(f"has an unsupported activation (type {kind}, clip range {clip})")
    if clip or dtype.itemsize < 4:
        limits = np.iinfo(FORCED_TYPES.get(clip, dtype))
        low, high = operation["ACTIVATION_MIN"], operation["ACTIVATION_MAX"]
        if limits.min < 0:
            low, high = operation.signed("ACTIVATION_MIN"), operation.signed("ACTIVATION_MAX")
        values = np.clip(values, max(low, limits.min), min(high, limits.max))
    if kind:
        values = look_up(memory, accelerator, values, dtype, kind - TABLE)
    limits = np.iinfo(dtype)
    if values.min() < limits.min or values.max() > limits.max:
        raise operation.reject("overflows its output of 32 bits")
    return values


def look_up(
    memory: Memory, accelerator: Accelerator, values: Array, dtype: np.dtype, index: int
) -> Array:
    """Return the table's value for each input.

    A table has 256 values, or 512 pairs of a base and a slope if the output has 16 bits.
    """
    start = accelerator.shram_bytes // accelerator.cores - TABLES_BYTES + index * TABLE_BYTES
    tables = memory.internal[start:]
    if dtype.itemsize == 2:
        pairs = tables[:TABLES_BYTES].view("<i2").reshape(-1, 2).astype(np.int64)
        base, slope = pairs[(values >> 7) + 256].transpose(values.ndim, *range(values.ndim))
        return np.asarray(base + ((slope * (values & 0x7F) + 64) >> 7))
    table = tables[: 256 * dtype.itemsize].view(dtype.newbyteorder("<")).astype(np.int64)
    return np.asarray(table[values + 128 if dtype.kind == "i" else values])
