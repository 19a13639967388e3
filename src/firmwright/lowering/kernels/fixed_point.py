"""Multiplies integers by a real factor, and rounds like TFLite's reference kernels.

A factor is mantissa · 2^(shift - 31), and the mantissa has 31 bits. The product is rounded twice.
The high half of the doubled product is rounded to nearest, ties up. Then the right shift rounds to
nearest, ties away from zero. Sources: tensorflow/lite/kernels/internal/common.cc,
MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING, and the functions that it calls in
gemmlowp's fixedpoint.h.

This module computes the factors. templates/network/fixed_point.h contains the arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tvm import tirx

Integer = Any
"""A TIR expression, or a Python integer in place of an expression."""

Integers = TypeVar("Integers", int, npt.NDArray[np.int64])

FAST_LIMIT = 2**29
"""The limit for values that fixed_scale multiplies by four in 32 bits."""


@dataclass(frozen=True)
class Multipliers:
    """Real factors in fixed point.

    The arrays have one element per channel, or one element in total.
    """

    mantissa: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int8]

    @property
    def left_shift(self) -> npt.NDArray[np.int8]:
        return np.maximum(self.shift, 0).astype("int8")

    @property
    def right_shift(self) -> npt.NDArray[np.int8]:
        return np.maximum(-self.shift, 0).astype("int8")


LARGEST_SHIFT = 30
"""The maximum number of bits by which TFLite's kernels can shift a sum to the left."""


def quantize_multiplier(factor: float) -> tuple[int, int]:
    """Return the mantissa and shift of a factor, like TFLite's QuantizeMultiplier.

    Source: tensorflow/lite/kernels/internal/quantization_util.cc. Raises ValueError if the factor
    is too large for TFLite's shifts.
    """
    if factor == 0.0:
        return 0, 0
    fraction, shift = math.frexp(factor)
    mantissa = math.floor(fraction * 2.0**31 + 0.5)
    if mantissa == 2**31:
        mantissa, shift = mantissa // 2, shift + 1
    if shift > LARGEST_SHIFT:
        raise ValueError(
            f"the ratio of its scales, {factor:g}, is not below 2^{LARGEST_SHIFT}; quantize "
            "the model again with smaller values, such as a mask of -100 in place of the smallest "
            "float"
        )
    return (0, 0) if shift < -31 else (mantissa, shift)


def to_fixed_point(values: npt.NDArray[np.float64]) -> Multipliers:
    pairs = [quantize_multiplier(float(v)) for v in values.reshape(-1)]
    return Multipliers(
        np.array([m for m, _ in pairs], "int32"), np.array([s for _, s in pairs], "int8")
    )


def apply_scale(
    x: Integer, mantissa: Integer, left: Integer, right: Integer, largest: int
) -> Integer:
    """Return x · mantissa · 2^(left - right - 31). |x · 2^left| must be at most ``largest``."""
    if largest >= FAST_LIMIT:
        return call_fixed_point("fixed_scale_any", x, mantissa, left, right)
    shifted = x * (tirx.const(1, "int32") << left) if not is_zero(left) else x
    return call_fixed_point("fixed_scale", shifted, mantissa, right)


def apply_scale_once(
    x: Integer, mantissa: Integer, left: Integer, right: Integer, ties: str = ""
) -> Integer:
    """Return x · mantissa · 2^(left - right - 31), rounded once.

    ``ties`` is the direction of ties, "up" or "down" in magnitude. ``ties`` is '' if there are no
    ties.
    """
    shift = right.astype("int32") - left.astype("int32")
    if ties:
        return call_fixed_point(
            "fixed_scale_tied", x.astype("int64"), mantissa, shift, int(ties == "up")
        )
    function = "fixed_scale_once_wide" if x.ty.dtype == "int64" else "fixed_scale_once"
    return call_fixed_point(function, x, mantissa, shift)


def find_tie_direction(
    quotient: npt.NDArray[np.float64], factors: Multipliers, largest: int
) -> str:
    """Return the direction of ties, "up" or "down" in magnitude, for a single factor.

    Real numbers are rounded half away from zero. If the real factor is slightly smaller than the
    fixed-point factor, a fixed-point tie is below the real tie and is rounded down. The result is
    '' if no integer up to ``largest`` is a tie, or if there are several factors.
    """
    mantissa, bits = int(factors.mantissa[0]), 31 - int(factors.shift[0])
    if factors.mantissa.size > 1 or mantissa == 0 or bits < 1:
        return ""
    trailing_zeros = (mantissa & -mantissa).bit_length() - 1
    if 2 ** max(bits - 1 - trailing_zeros, 0) > largest:
        return ""
    return "down" if float(quotient.reshape(-1)[0]) < math.ldexp(mantissa, -bits) else "up"


def apply_scale_wide(x: Integer, mantissa: Integer, left: Integer, right: Integer) -> Integer:
    """Return x · mantissa · 2^(left - right - 15), rounded once. The mantissa has 15 bits."""
    shift = right.astype("int32") - left.astype("int32")
    return call_fixed_point("fixed_scale_wide", x.astype("int64"), mantissa, shift)


SHORTENED_BITS = 16
"""The number of bits that a mantissa of 31 bits loses."""


def shorten_mantissas(factors: Multipliers) -> Multipliers:
    """Return the factors with mantissas of 15 bits, for sums of 16-bit activations.

    Source: tensorflow/lite/kernels/internal/common.cc, MultiplyByQuantizedMultiplier of int64.
    """
    mantissa = (factors.mantissa.astype("int64") + 2**15) >> SHORTENED_BITS
    return Multipliers(np.minimum(mantissa, 2**15 - 1).astype("int32"), factors.shift)


def call_fixed_point(function: str, *arguments: Integer) -> Integer:
    """Return a call of a function in templates/network/fixed_point.h.

    The functions are C functions, because TIR's simplifier could widen or expand their arithmetic.
    """
    return tirx.call_pure_extern("int32", function, *arguments)


def is_zero(x: Integer) -> bool:
    return isinstance(x, tirx.IntImm) and int(x) == 0


def rounding_multiply_high(x: Integers, y: int) -> Integers:
    """Return the result of the C function fixed_product, for Python or int64 integers."""
    return (x * y + 2**30) >> 31


def rounding_shift_right(x: Integers, bits: int) -> Integers:
    """Return the result of the C function fixed_shift, for Python or int64 integers."""
    return (((2 * x - (x < 0)) >> bits) + 1) >> 1


def apply_multiplier(x: int, mantissa: int, shift: int) -> int:
    """Return x · mantissa · 2^(shift - 31), rounded like TFLite's MultiplyByQuantizedMultiplier."""
    return rounding_shift_right(
        rounding_multiply_high(x << max(shift, 0), mantissa), max(-shift, 0)
    )
