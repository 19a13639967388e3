"""Functions of one 8-bit value, with the arithmetic of TFLite's reference kernels, as tables.

A kernel that computes in integers gives a table of 256 integers as well as one in real numbers:
the arithmetic is run here for every value that the type has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import Constant, constant_array
from firmwright.lowering.fixed_point import Integer, factors_of, half_away, multiplied, scaled
from firmwright.lowering.fixed_point import quantise_multiplier as quantise
from firmwright.lowering.kernels import real_functions
from firmwright.lowering.kernels.interpolation import interpolated, sixteen_bit_source
from firmwright.lowering.kernels.inverse_root import inverse_root
from firmwright.lowering.kernels.tables import eight_bit_source, integer_table
from firmwright.lowering.quantised import Grid, Quantised
from firmwright.lowering.requantization import immediates, stored

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerArithmetic

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1


def leaky_relu(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Source: tensorflow/lite/kernels/activations.cc (LeakyReluPrepare), leaky_relu.h."""
    source = eight_bit_source(region, call.args[0])
    if source is None:
        return sloped_wide(region, call, grid, np.float32(call.attrs.alpha))
    scale = np.float32(source.scale[0])
    whole = quantise(float(scale / grid.scale))
    sloped = quantise(float(scale * np.float32(call.attrs.alpha) / grid.scale))

    def function(x: int) -> int:
        return multiplied(x, *(whole if x >= 0 else sloped))

    return integer_table(region, source, grid, function)


def sloped_wide(
    region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid, slope: np.float32
) -> relax.Expr | None:
    """Multiply 16-bit tensors at run time: what is negative by ``slope`` too."""
    source = sixteen_bit_source(region, call.args[0])
    if source is None:
        return None
    scale = np.float32(source.scale[0])
    slopes = (np.float32(1), slope)
    factors = [factors_of(np.array([scale * s / grid.scale], "float64")) for s in slopes]

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            x = data(*indices).astype("int32")
            positive, negative = (
                scaled(x, *immediates(f), largest=source.largest << int(f.left_shift[0]))
                for f in factors
            )
            return stored(te.if_then_else(x >= 0, positive, negative), grid)

        return te.compute(data.shape, element, name="sloped")

    return region.emit_te("sloped", compute, source.data)


def absolute(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Source: tensorflow/lite/kernels/elementwise.cc (AbsEvalQuantized)."""
    source = eight_bit_source(region, call.args[0])
    if source is None:
        return sloped_wide(region, call, grid, np.float32(-1))
    scale = np.float32(source.scale[0])
    factor = quantise(float(scale / grid.scale))

    def function(x: int) -> int:
        return abs(x) if scale == grid.scale else multiplied(abs(x), *factor)

    return integer_table(region, source, grid, function)


def reciprocal_root(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Source: tensorflow/lite/kernels/elementwise.cc (RsqrtEvalQuantized).

    The kernel refuses to run on negative values; they have the result of 0 here, the largest.
    """
    source = eight_bit_source(region, call.args[0])
    if source is None:
        return None
    mantissa, shift = quantise(1.0 / (math.sqrt(np.float32(source.scale[0])) * float(grid.scale)))
    fraction_bits = 20

    def function(x: int) -> int:
        if x <= 0:
            return grid.high - grid.zero_point
        root, root_shift = inverse_root(x)
        fixed = multiplied(1, root, root_shift + fraction_bits)
        return multiplied(fixed, mantissa, shift - fraction_bits)

    return integer_table(region, source, grid, function)


def hard_swish(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """x · relu6(x + 3) / 6 in 16-bit fixed point.

    Source: tensorflow/lite/kernels/internal/reference/hard_swish.h, activations.cc (Prepare).
    """
    argument = hard_swish_argument(region, call)
    source = None if argument is None else eight_bit_source(region, argument)
    if source is None:
        return None
    fine = np.float32(source.scale[0]) * np.float32(1 / 128)
    gain, gain_shift = sixteen_bit(float(fine) / float(grid.scale))
    slope, slope_shift = sixteen_bit(float(fine) / float(np.float32(3) / np.float32(32768)))

    def function(x: int) -> int:
        fine_value = x << 7
        share = fine_value
        if slope_shift > 0:
            share = saturated(share << (slope_shift - 1))
        share = rounded_high_half(share, slope)
        if slope_shift > 0:
            share = saturated(share << 1)
        if slope_shift < 0:
            share = half_away(share, -slope_shift)
        share = (share + 2**15) >> 1
        product = high_half(share, rounded_high_half(fine_value, gain))
        return half_away(product, -gain_shift)

    return integer_table(region, source, grid, function)


def hard_swish_argument(region: IntegerArithmetic, call: tvm.ir.Call) -> relax.Expr | None:
    """Return x if the division is x · clip(x + 3, 0, 6) / 6, on whatever copies of x."""
    product = region.defined(call.args[0], "relax.multiply")
    if product is None or not is_number(call.args[1], 6):
        return None
    clip = region.defined(product.args[1], "relax.clip")
    total = None if clip is None else region.defined(clip.args[0], "relax.add")
    if clip is None or total is None or not is_number(total.args[1], 3):
        return None
    left, right = (region.value(a) for a in (product.args[0], total.args[0]))
    if not (isinstance(left, Quantised) and isinstance(right, Quantised)):
        return None
    same = left.data.same_as(right.data) and left.same_grid(right)
    limits = [float(a.value) for a in clip.args[1:]]
    return product.args[0] if same and limits == [0, 6] else None


def is_number(value: relax.Expr, number: float) -> bool:
    return isinstance(value, Constant) and bool((constant_array(value) == number).all())


def sixteen_bit(factor: float) -> tuple[int, int]:
    """Return a multiplier's mantissa in 16 bits, and its shift."""
    mantissa, shift = quantise(factor)
    return min((mantissa + 2**15) >> 16, INT16_MAX), shift


def saturated(x: int) -> int:
    return max(INT16_MIN, min(INT16_MAX, x))


def rounded_high_half(x: int, y: int) -> int:
    """x · y / 2^15 to nearest, ties away from zero; the largest 16-bit number at most."""
    product = x * y
    nudge = 2**14 if product >= 0 else 1 - 2**14
    return min(int((product + nudge) / 2**15), INT16_MAX)


def high_half(x: int, y: int) -> int:
    """x · y / 2^15 towards zero; the largest 16-bit number at most."""
    return min(int(x * y / 2**15), INT16_MAX)


def exponential(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Look 16-bit tensors up; numbers over exp(80) are beyond any grid."""
    return interpolated(region, call, grid, lambda x: math.exp(min(x, 80.0)))


def logarithm(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Look 16-bit tensors up; numbers that have no logarithm get the grid's lowest one.

    Source: tensorflow/lite/kernels/elementwise.cc (LogPrepare).
    """
    lowest = float(grid.scale) * (grid.low - grid.zero_point)
    return interpolated(region, call, grid, lambda x: math.log(x) if x > 0 else lowest)


def gelu(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Look 16-bit tensors up; the last bits are those of the complementary error function.

    Source: tensorflow/lite/kernels/internal/reference/gelu.h.
    """

    def function(x: float) -> float:
        argument = np.float32(x) * np.float32(-math.sqrt(0.5))
        return float(np.float32(0.5 * x) * np.float32(math.erfc(argument)))

    return interpolated(region, call, grid, function)


def gelu_tanh(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Look 16-bit tensors up. Source: as of :func:`gelu`."""
    return interpolated(region, call, grid, lambda x: float(real_functions.gelu_tanh(np.array(x))))
