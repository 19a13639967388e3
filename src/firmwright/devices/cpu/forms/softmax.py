"""Packs a softmax on integers, with a bound of its error.

If the error may reach the midpoint between two results, float32 arithmetic decides.

A table has the exponentials of the distances from a row's largest element, times 2^``exponent``.
The C computes results in steps with ``point`` bits after the binary point, and with one division
per row. The results differ from the results of float32 by at most

- four units, because of the roundings of the table, of the division and of the product;
- 2^-``error`` times the result, because of the roundings of float32, mostly of the dequantized
  elements, and of the roundings of the table in the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log2

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Packing
from firmwright.ir.byte_layers import FixedSoftmax, Softmax
from firmwright.lowering.kernels.softmax import make_exp_table

HALF_ULP = 2.0**-24
"""The largest relative error of a float32 operation."""

EXPONENTIAL = 2.0**-21
"""The largest relative error of expf, four times the error of C's libraries."""

MARGIN = 1.5
"""The factor by which the bound exceeds the sum of the first-order errors."""

POINTS = range(8, 17)
"""The possible numbers of bits after the binary point."""

BYTES = 256


@dataclass(frozen=True)
class Numbers:
    """The numbers of the C. ``numerator`` is 2^(32 + ``point``) / scale of the result."""

    exponent: int
    point: int
    error: int
    numerator: int


@lru_cache(maxsize=16)
def find_numbers(layer: Softmax) -> Numbers | None:
    """Return the numbers of a softmax, or None if the error bound exceeds a quarter of a step."""
    exponent = 31 - ceil(log2(layer.length))
    point = min(floor(log2(layer.scale)) + exponent - 1, POINTS[-1])
    limits = np.iinfo(layer.input_dtype)
    farthest = max(layer.input_zero_point - limits.min, limits.max - layer.input_zero_point)
    # The C dequantizes two elements. Their distance is less than 256.
    argument = HALF_ULP * layer.input_scale * (2 * int(farthest) + BYTES)
    relative = 2 * (argument + EXPONENTIAL) + (layer.length + 4) * HALF_ULP
    relative += layer.length * 2.0 ** -(exponent + 1)
    error = floor(-log2(MARGIN * relative))
    if point not in POINTS or error < 1 or 2.0**-error / layer.scale > 1 / 4:
        return None
    return Numbers(exponent, point, error, floor(2 ** (32 + point) / Fraction(layer.scale)))


BOUNDED = Condition(
    "rows and scales for which integers err by less than a quarter of a step",
    lambda layer: find_numbers(layer) is not None,
)


def pack_fixed_softmax(layer: FixedSoftmax) -> Packing:
    """Pack the exponentials of the distances from a row's largest element, in Q0.31."""
    return Packing(
        {"table": make_exp_table(layer.input_scale)},
        {"rows": layer.rows, "length": layer.length},
        {"low": layer.low, "high": layer.high},
    )


def pack_softmax(layer: Softmax) -> Packing:
    numbers = find_numbers(layer)
    assert numbers is not None  # the form's condition checks the layer
    distances = np.arange(BYTES) * np.float64(layer.input_scale)
    table = np.rint(np.exp(-distances) * 2.0**numbers.exponent)
    words = np.array([numbers.numerator >> 32, numbers.numerator & 0xFFFFFFFF], "uint64")
    upper, lower = words.astype("uint32").view("int32").tolist()
    return Packing(
        {
            "table": table.astype("uint32"),
            "scales": np.array([layer.input_scale, layer.scale], "float32"),
        },
        {
            "rows": layer.rows,
            "length": layer.length,
            "input_zero_point": layer.input_zero_point,
            "numerator_upper": upper,
            "numerator_lower": lower,
            "point": numbers.point,
            "error": numbers.error,
            "zero_point": layer.zero_point,
            "low": layer.low,
            "high": layer.high,
        },
        {},
    )
