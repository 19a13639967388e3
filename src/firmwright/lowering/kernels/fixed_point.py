"""Multiplication by a real factor in integers, rounded as TFLite's reference kernels round.

A factor is mantissa · 2^(shift - 31) with a mantissa of 31 bits. The product is rounded twice:
the high half of the doubled product to nearest, ties up; then the right shift to nearest, ties
away from zero (tensorflow/lite/kernels/internal/common.cc, MultiplyByQuantizedMultiplier without
TFLITE_SINGLE_ROUNDING, and gemmlowp's fixedpoint.h that it calls).

This module makes the numbers; templates/network/fixed_point.h has the arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tvm import tirx

Integer = Any
"""A TIR expression, or a Python integer in its place."""

Integers = TypeVar("Integers", int, npt.NDArray[np.int64])

FAST_LIMIT = 2**29
"""Below this magnitude a value can be multiplied by four in 32 bits, as fixed_scale does."""


@dataclass(frozen=True)
class Multipliers:
    """Real factors in fixed point; arrays of one length, 1 where all channels share one."""

    mantissa: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int8]

    @property
    def left_shift(self) -> npt.NDArray[np.int8]:
        return np.maximum(self.shift, 0).astype("int8")

    @property
    def right_shift(self) -> npt.NDArray[np.int8]:
        return np.maximum(-self.shift, 0).astype("int8")


LARGEST_SHIFT = 30
"""Bits; what TFLite's kernels can shift a sum to the left."""


def quantize_multiplier(factor: float) -> tuple[int, int]:
    """Return mantissa and shift of a factor, as TFLite's QuantizeMultiplier gives them.

    Source: tensorflow/lite/kernels/internal/quantization_util.cc. Raises ValueError for a
    factor so large that a shift by it is not defined.
    """
    if factor == 0.0:
        return 0, 0
    fraction, shift = math.frexp(factor)
    mantissa = math.floor(fraction * 2.0**31 + 0.5)
    if mantissa == 2**31:
        mantissa, shift = mantissa // 2, shift + 1
    if shift > LARGEST_SHIFT:
        raise ValueError(f"the ratio of its scales, {factor:g}, is not below 2^{LARGEST_SHIFT}")
    return (0, 0) if shift < -31 else (mantissa, shift)


def to_fixed_point(values: npt.NDArray[np.float64]) -> Multipliers:
    pairs = [quantize_multiplier(float(v)) for v in values.reshape(-1)]
    return Multipliers(
        np.array([m for m, _ in pairs], "int32"), np.array([s for _, s in pairs], "int8")
    )


def apply_scale(
    x: Integer, mantissa: Integer, left: Integer, right: Integer, largest: int
) -> Integer:
    """Return x · mantissa · 2^(left - right - 31), where |x · 2^left| is at most ``largest``."""
    if largest >= FAST_LIMIT:
        return call_fixed_point("fixed_scale_any", x, mantissa, left, right)
    shifted = x * (tirx.const(1, "int32") << left) if not is_zero(left) else x
    return call_fixed_point("fixed_scale", shifted, mantissa, right)


def apply_scale_once(
    x: Integer, mantissa: Integer, left: Integer, right: Integer, ties: str = ""
) -> Integer:
    """Return x · mantissa · 2^(left - right - 31), rounded once.

    ``ties`` go "up" or "down" in magnitude; where there are none it is ''.
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
    """Tell where a single factor's ties go, which real numbers round half away from zero.

    Ties of the fixed-point factor are no ties of a real one that is a little less: those go down.
    '' where no integer up to ``largest`` is a tie, and for the factors of several channels.
    """
    mantissa, bits = int(factors.mantissa[0]), 31 - int(factors.shift[0])
    if factors.mantissa.size > 1 or mantissa == 0 or bits < 1:
        return ""
    trailing_zeros = (mantissa & -mantissa).bit_length() - 1
    if 2 ** max(bits - 1 - trailing_zeros, 0) > largest:
        return ""
    return "down" if float(quotient.reshape(-1)[0]) < math.ldexp(mantissa, -bits) else "up"


def apply_scale_wide(x: Integer, mantissa: Integer, left: Integer, right: Integer) -> Integer:
    """Return x · mantissa · 2^(left - right - 15), rounded once, with a mantissa of 15 bits."""
    shift = right.astype("int32") - left.astype("int32")
    return call_fixed_point("fixed_scale_wide", x.astype("int64"), mantissa, shift)


SHORTENED_BITS = 16
"""Bits by which mantissas of 31 bits are shortened."""


def shorten_mantissas(factors: Multipliers) -> Multipliers:
    """Return the factors with mantissas of 15 bits, which sums of 16-bit activations are scaled by.

    Source: tensorflow/lite/kernels/internal/common.cc, MultiplyByQuantizedMultiplier of int64.
    """
    mantissa = (factors.mantissa.astype("int64") + 2**15) >> SHORTENED_BITS
    return Multipliers(np.minimum(mantissa, 2**15 - 1).astype("int32"), factors.shift)


def call_fixed_point(function: str, *arguments: Integer) -> Integer:
    """Return a call of one of the functions in templates/network/fixed_point.h.

    They stay functions so that TIR's simplifier does not widen or multiply out what they do.
    """
    return tirx.call_pure_extern("int32", function, *arguments)


def is_zero(x: Integer) -> bool:
    return isinstance(x, tirx.IntImm) and int(x) == 0


def rounding_multiply_high(x: Integers, y: int) -> Integers:
    """As fixed_product of the generated header, on Python's integers or an int64 array."""
    return (x * y + 2**30) >> 31


def rounding_shift_right(x: Integers, bits: int) -> Integers:
    """As fixed_shift of the generated header, on Python's integers or an int64 array."""
    return (((2 * x - (x < 0)) >> bits) + 1) >> 1


def apply_multiplier(x: int, mantissa: int, shift: int) -> int:
    """Return x · mantissa · 2^(shift - 31) as TFLite's MultiplyByQuantizedMultiplier rounds it."""
    return rounding_shift_right(
        rounding_multiply_high(x << max(shift, 0), mantissa), max(-shift, 0)
    )
