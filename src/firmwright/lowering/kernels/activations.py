"""Computes functions of one 8-bit value with tables and TFLite's reference arithmetic.

A table of 256 integers can replace a kernel on integers or on real numbers. This module runs the
arithmetic for every value of the type.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import Constant, constant_array
from firmwright.lowering.kernels import real_functions
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    Integer,
    apply_multiplier,
    apply_scale,
    rounding_multiply_high,
    rounding_shift_right,
    to_fixed_point,
)
from firmwright.lowering.kernels.fixed_point import quantize_multiplier as quantize
from firmwright.lowering.kernels.interpolation import INT16_MAX, INT16_MIN, lower_by_interpolation
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.kernels.requantization import immediates, to_storage
from firmwright.lowering.kernels.tables import lower_by_table

HALF_SQRT_2 = 1518500250
"""sqrt(2) / 2 in Q0.31."""
ONE = 2**28
"""1 in Q3.28."""


def leaky_relu(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Multiply by the slope's magnitude, then negate the product if the slope is negative.

    This order determines LiteRT's rounding of halves. Source:
    tensorflow/lite/kernels/activations.cc (LeakyReluPrepare), leaky_relu.h.
    """
    source = builder.find_integers(call.args[0], 8)
    slope = np.float32(call.attrs.alpha)
    if source is None:
        return leaky_relu_int16(builder, call, params, abs(slope), negated=bool(slope < 0))
    scale = np.float32(source.scale[0])
    whole = quantize(float(scale / params.scale))
    sloped = quantize(float(scale * abs(slope) / params.scale))

    def function(x: int) -> int:
        product = apply_multiplier(x, *(whole if x >= 0 else sloped))
        return -product if x < 0 and slope < 0 else product

    return lower_by_table(builder, source, params, function)


def leaky_relu_int16(
    builder: RegionBuilder,
    call: tvm.ir.Call,
    params: OutputQuantParams,
    slope: np.float32,
    negated: bool = False,
) -> relax.Expr | None:
    """Scale 16-bit tensors at run time, and multiply negative values by ``slope``.

    If ``negated`` is true, the results of negative values are negated.
    """
    source = builder.find_integers(call.args[0], 16)
    if source is None:
        return None
    scale = np.float32(source.scale[0])
    slopes = (np.float32(1), slope)
    factors = [to_fixed_point(np.array([scale * s / params.scale], "float64")) for s in slopes]

    def element(indices: Any, data: te.Tensor) -> Integer:
        x = data(*indices).astype("int32")
        positive, negative = (
            apply_scale(x, *immediates(f), largest=source.largest << int(f.left_shift[0]))
            for f in factors
        )
        sloped = -negative if negated else negative
        return to_storage(te.if_then_else(x >= 0, positive, sloped), params)

    return builder.emit_elements("sloped", element, source.data, result="sloped")


def absolute(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Return absolute values, with a table for 8-bit tensors and at run time for 16-bit tensors.

    Source: tensorflow/lite/kernels/elementwise.cc (AbsEvalQuantized).
    """
    source = builder.find_integers(call.args[0], 8)
    if source is None:
        return leaky_relu_int16(builder, call, params, np.float32(-1))
    scale = np.float32(source.scale[0])
    factor = quantize(float(scale / params.scale))

    def function(x: int) -> int:
        return abs(x) if scale == params.scale else apply_multiplier(abs(x), *factor)

    return lower_by_table(builder, source, params, function)


def rsqrt(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Return the reciprocal square roots of an 8-bit or 16-bit tensor with a table.

    Source: tensorflow/lite/kernels/elementwise.cc (RsqrtEvalQuantizedInt8, GenericPrepare).
    TFLite's kernels reject negative values. In firmwright, 0 and negative values have the largest
    result.
    """
    source = builder.find_integers(call.args[0], 8)
    if source is None:
        largest = INT16_MAX * float(params.scale)
        return lower_by_interpolation(
            builder, call, params, lambda x: largest if x <= 0 else 1 / np.sqrt(np.float32(x))
        )
    mantissa, shift = quantize(1.0 / (math.sqrt(np.float32(source.scale[0])) * float(params.scale)))
    fraction_bits = 20

    def function(x: int) -> int:
        if x <= 0:
            return params.high - params.zero_point
        root, root_shift = inverse_sqrt(x)
        fixed = apply_multiplier(1, root, root_shift + fraction_bits)
        return apply_multiplier(fixed, mantissa, shift - fraction_bits)

    return lower_by_table(builder, source, params, function)


def square_root(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Return truncated square roots.

    Source: tensorflow/lite/kernels/elementwise.cc (SqrtEvalQuantized). TFLite's kernel rejects
    negative values. In firmwright, the root of a negative value is the root of 0.
    """
    source = builder.find_integers(call.args[0], 8)
    if source is None:
        return square_root_int16(builder, call, params)
    scale = np.float32(source.scale[0])

    def function(x: int) -> int:
        return int(np.sqrt(np.float32(max(x, 0)) * scale) / np.float32(params.scale))

    return lower_by_table(builder, source, params, function)


def square_root_int16(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute the roots of a 16-bit tensor at run time in float32, like LiteRT."""
    source = builder.find_integers(call.args[0], 16)
    if source is None or params.dtype != "int16":
        return None
    scale, step = (tirx.const(float(s), "float32") for s in (source.scale[0], params.scale))

    def element(indices: Any, data: te.Tensor) -> Integer:
        x = te.max(data(*indices).astype("int32"), 0).astype("float32")
        return to_storage((te.sqrt(x * scale) / step).astype("int32"), params)

    return builder.emit_elements("square_root", element, source.data, result="roots")


def inverse_sqrt(x: int) -> tuple[int, int]:
    """Return the mantissa and shift of 1 / sqrt(x) for x > 0.

    The function computes five Newton steps in Q3.28. Source:
    tensorflow/lite/kernels/internal/common.h, GetInvSqrtQuantizedMultiplierExp.
    """
    if x <= 1:
        return 2**31 - 1, 0
    right_shift = 11
    while x >= 2**29:
        x //= 4
        right_shift += 1
    pairs = (32 - x.bit_length() - 1) // 2 - 1
    right_shift -= pairs
    fraction = (x << 2 * pairs) >> 1
    half = (fraction + 1) >> 1
    root = ONE
    for _ in range(5):
        cube = multiply_q3_28(multiply_q3_28(root, root), root)
        root = saturating_shift_left(
            rounding_multiply_high(ONE + ONE // 2, root) - rounding_multiply_high(half, cube), 3
        )
    mantissa = rounding_multiply_high(root, HALF_SQRT_2)
    if right_shift < 0:
        mantissa, right_shift = mantissa << -right_shift, 0
    return mantissa, -right_shift


def multiply_q3_28(x: int, y: int) -> int:
    return saturating_shift_left(rounding_multiply_high(x, y), 3)


def saturating_shift_left(x: int, bits: int) -> int:
    return max(-(2**31), min(2**31 - 1, x << bits))


def hard_swish(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute x · relu6(x + 3) / 6 in 16-bit fixed point.

    Source: tensorflow/lite/kernels/internal/reference/hard_swish.h, activations.cc (Prepare).
    """
    argument = match_hard_swish(builder, call)
    source = None if argument is None else builder.find_integers(argument, 8)
    if source is None:
        return None
    fine = np.float32(source.scale[0]) * np.float32(1 / 128)
    gain, gain_shift = quantize_multiplier_int16(float(fine) / float(params.scale))
    slope, slope_shift = quantize_multiplier_int16(
        float(fine) / float(np.float32(3) / np.float32(32768))
    )

    def function(x: int) -> int:
        fine_value = x << 7
        share = fine_value
        if slope_shift > 0:
            share = saturate_int16(share << (slope_shift - 1))
        share = rounding_multiply_high_16(share, slope)
        if slope_shift > 0:
            share = saturate_int16(share << 1)
        if slope_shift < 0:
            share = rounding_shift_right(share, -slope_shift)
        share = (share + 2**15) >> 1
        product = multiply_high_16(share, rounding_multiply_high_16(fine_value, gain))
        return rounding_shift_right(product, -gain_shift)

    return lower_by_table(builder, source, params, function)


def match_hard_swish(builder: RegionBuilder, call: tvm.ir.Call) -> relax.Expr | None:
    """Return x if a division is x · clip(x + 3, 0, 6) / 6, else None.

    The division may read copies of x.
    """
    product = builder.find_call(call.args[0], "relax.multiply")
    if product is None or not is_number(call.args[1], 6):
        return None
    clip = builder.find_call(product.args[1], "relax.clip")
    total = None if clip is None else builder.find_call(clip.args[0], "relax.add")
    if clip is None or total is None or not is_number(total.args[1], 3):
        return None
    left, right = (builder.value(a) for a in (product.args[0], total.args[0]))
    if not (isinstance(left, QuantizedTensor) and isinstance(right, QuantizedTensor)):
        return None
    same = left.data.same_as(right.data) and left.has_same_params(right)
    limits = [float(a.value) for a in clip.args[1:]]
    return product.args[0] if same and limits == [0, 6] else None


def is_number(value: relax.Expr, number: float) -> bool:
    return isinstance(value, Constant) and bool((constant_array(value) == number).all())


def quantize_multiplier_int16(factor: float) -> tuple[int, int]:
    """Return a multiplier's 16-bit mantissa and its shift."""
    mantissa, shift = quantize(factor)
    return min((mantissa + 2**15) >> 16, INT16_MAX), shift


def saturate_int16(x: int) -> int:
    return max(INT16_MIN, min(INT16_MAX, x))


def rounding_multiply_high_16(x: int, y: int) -> int:
    """Return x · y / 2^15, rounded to nearest and limited to 16 bits.

    Ties are rounded away from zero.
    """
    product = x * y
    nudge = 2**14 if product >= 0 else 1 - 2**14
    return min(int((product + nudge) / 2**15), INT16_MAX)


def multiply_high_16(x: int, y: int) -> int:
    """Return x · y / 2^15, rounded toward zero and limited to the largest 16-bit number."""
    return min(int(x * y / 2**15), INT16_MAX)


def exponential(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute exp of 16-bit tensors with a table.

    Arguments are limited to 80, because exp(80) exceeds every output range.
    """
    return lower_by_interpolation(builder, call, params, lambda x: math.exp(min(x, 80.0)))


def logarithm(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute log of 16-bit tensors with a table.

    A value that is not positive has the lowest result. Source:
    tensorflow/lite/kernels/elementwise.cc (LogPrepare).
    """
    lowest = float(params.scale) * (params.low - params.zero_point)
    return lower_by_interpolation(builder, call, params, lambda x: math.log(x) if x > 0 else lowest)


def gelu(builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams) -> relax.Expr | None:
    """Compute GELU of 16-bit tensors with a table, from the complementary error function.

    Source: tensorflow/lite/kernels/internal/reference/gelu.h.
    """

    def function(x: float) -> float:
        argument = np.float32(x) * np.float32(-math.sqrt(0.5))
        return float(np.float32(0.5 * x) * np.float32(math.erfc(argument)))

    return lower_by_interpolation(builder, call, params, function)


def gelu_tanh(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute the tanh form of :func:`gelu` of 16-bit tensors with a table."""
    return lower_by_interpolation(
        builder, call, params, lambda x: float(real_functions.gelu_tanh(np.array(x)))
    )
