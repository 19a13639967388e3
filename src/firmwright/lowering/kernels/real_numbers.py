"""Quantizes float32 numbers to integers: divides by the scale, rounds and clamps.

The bit patterns of positive floats have the order of the numbers. Each whole number n has a first
pattern from which |x| / scale is rounded to n. The rounded quotient is the number of first patterns
that are not above the pattern of |x|. A table contains the first patterns. The leading bits of x
and of the scale's reciprocal determine the position in the table, and one comparison remains. The
result is exact for every x and for any rounding that does not depend on the sign. No float
arithmetic is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.codegen.data_indices import mark_bounded
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import call_fixed_point
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction
from firmwright.lowering.kernels.requantization import to_storage
from firmwright.lowering.kernels.rounding import Rounding

MOST_STEPS = 255
"""The maximum number of steps, for 8 bits.

More steps would need a large table and a reciprocal with more bits.
"""

SMALLEST_NORMAL, INFINITY = 0x00800000, 0x7F800000
"""The bit patterns of the smallest normal float32 and of infinity."""


@dataclass(frozen=True, eq=False)
class QuotientBegins:
    """The bit patterns ``begins[n]`` from which a quotient by the scale is rounded to n + 1.

    The product of a number's 15 leading bits and ``multiplier`` is divided by 2^(``exponent`` - the
    number's exponent field). The result is the quotient, or up to 1/40 less.
    """

    begins: npt.NDArray[np.uint32]
    multiplier: int
    exponent: int


def quantize_real(
    builder: RegionBuilder, argument: relax.Expr, params: OutputQuantParams, rounding: Rounding
) -> relax.Expr:
    """Return float32 values quantized to integers.

    NaN becomes the lowest integer, like in ONNX Runtime on x86-64. Sources:
    tensorflow/lite/kernels/internal/reference/quantize.h, AffineQuantize; ONNX's QuantizeLinear.
    """
    real = builder.materialize(builder.value(argument))
    steps = find_steps(params, rounding.nearest)
    if steps is None:
        return quantize_in_float32(builder, real, params, rounding.nearest_in_c)
    first, last, multiplier = (
        tirx.const(int(n), "uint32") for n in (steps.begins[0], steps.begins[-1], steps.multiplier)
    )
    table = builder.emit_constant("steps", steps.begins)

    def element(indices: Any, data: te.Tensor, table: te.Tensor) -> Any:
        x = data(*indices)
        position = call_fixed_point("fixed_float_place", x, first, last, multiplier, steps.exponent)
        begin = table(mark_bounded(position))
        return to_storage(call_fixed_point("fixed_float_steps", x, position, begin), params)

    return builder.emit_elements("quantize", element, real, table, result="quantized")


def quantize_in_float32(
    builder: RegionBuilder, real: relax.Expr, params: OutputQuantParams, nearest: str
) -> relax.Expr:
    low, high = (tirx.const(float(b), "float32") for b in (params.low, params.high))

    def element(indices: Any, data: te.Tensor) -> Any:
        quotient = data(*indices) / tirx.const(float(params.scale), "float32")
        rounded = tirx.call_pure_extern("float32", nearest, quotient)
        placed = rounded + tirx.const(float(params.zero_point), "float32")
        return te.min(te.max(placed, low), high).astype(params.dtype)

    return builder.emit_elements("quantize", element, real, result="quantized")


def find_steps(params: OutputQuantParams, nearest: RoundFunction) -> QuotientBegins | None:
    """Return the steps up to the larger limit, or None for 16 bits and extreme scales."""
    count = max(params.high - params.zero_point, params.zero_point - params.low)
    if not 1 <= count <= MOST_STEPS or not np.isfinite(params.scale) or params.scale <= 0:
        return None
    begins = find_begins(params.scale, count, nearest)
    if begins[0] < SMALLEST_NORMAL or begins[-1] >= INFINITY:
        return None
    fraction, exponent = math.frexp(1 / float(params.scale))
    return QuotientBegins(begins, math.floor(fraction * 2**16), 157 - exponent)


def find_begins(scale: np.float32, count: int, nearest: RoundFunction) -> npt.NDArray[np.uint32]:
    """Return the patterns at which the rounded quotient becomes 1, 2 … ``count``."""
    steps = np.arange(1, count + 1)
    below, reached = np.zeros(count, "int64"), np.full(count, INFINITY, "int64")
    with np.errstate(over="ignore"):
        while (reached - below > 1).any():
            middle = (below + reached) // 2
            reaches = nearest(middle.astype("uint32").view("float32") / scale) >= steps
            below, reached = np.where(reaches, below, middle), np.where(reaches, middle, reached)
    return reached.astype("uint32")
