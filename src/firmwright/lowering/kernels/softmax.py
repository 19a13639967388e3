"""Computes softmax in fixed point like TFLite's reference kernels.

Source: tensorflow/lite/kernels/internal/reference/softmax.h, internal/common.h (GetReciprocal) and
gemmlowp's fixedpoint/fixedpoint.h. "Q5.26" is a signed integer of 5 integer and 26 fraction bits.
With 8 bits, an exponential depends only on the distance to the row's largest value. There are 256
distances, so the exponentials are a table. The reciprocal of their sum needs three Newton steps at
run time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.codegen.data_indices import mark_bounded
from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.relax import static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    LARGEST_SHIFT,
    Integer,
    apply_multiplier,
    apply_scale,
    call_fixed_point,
    quantize_multiplier,
    rounding_multiply_high,
    rounding_shift_right,
    to_fixed_point,
)
from firmwright.lowering.kernels.interpolation import (
    INT16_MAX,
    INT16_MIN,
    Q15,
    interpolate,
    interpolation_table,
)
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams
from firmwright.lowering.kernels.requantization import immediates, to_storage

DIFFERENCE_INTEGER_BITS = 5
SUM_INTEGER_BITS = 12
SUM_FRACTION_BITS = 31 - SUM_INTEGER_BITS
"""The binary logarithm of 1 in Q12.19."""
SCALE_TOLERANCE = 1e-3
"""The maximum relative difference of a result's scale from the expected scale (SoftmaxPrepare)."""
MAX_CLASSES = 2**9 - 1
"""The maximum number of classes.

With more classes, the reference kernel may abort, because a sum of 2^9 has no output bits.
"""
INT32_MAX = 2**31 - 1

EXP_OF_POWERS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308),
    (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip
"""Pairs of n and gemmlowp's constant for exp(-2^n) in Q0.31. The constants determine results."""
EXP_OF_MINUS_EIGHTH = 1895147668
ONE_THIRD = 715827883

INT16_RANGE = INT16_MAX - INT16_MIN
MAX_DISTANCE = 10.0
"""The exponential of this distance, exp(-10), counts as zero."""


def softmax(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute softmax over one axis.

    TFLite allows only the scale 1/256, or 1/65536 for 16 bits. The zero point must be the type's
    smallest integer. For other parameters, the quotient has 16 bits and is then scaled.
    """
    source = builder.find_integers(call.args[0], 8)
    if source is None:
        return softmax_int16(builder, call, params)
    shape = static_shape(call)
    axis = int(call.attrs.axis) % len(shape)
    if shape[axis] > MAX_CLASSES:
        return None
    table = builder.emit_constant("exponentials", make_exp_table(float(source.scale[0])))

    def compute(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        return softmax_rows(data, table, axis, params)

    return builder.emit_te("softmax", compute, source.data, table)


def softmax_rows(
    data: te.Tensor, table: te.Tensor, axis: int, params: OutputQuantParams
) -> te.Tensor:
    shape = [int(d) for d in data.shape]
    classes = shape.pop(axis)
    scan, add = (te.reduce_axis((0, classes)) for _ in range(2))

    def of_class(row: tuple[Any, ...], number: Any) -> tuple[Any, ...]:
        return (*row[:axis], number, *row[axis:])

    largest = te.compute(
        shape, lambda *i: te.max(data(*of_class(i, scan)), axis=scan), name="largest"
    )

    def exponential(row: tuple[Any, ...], number: Any) -> Integer:
        distance = largest(*row).astype("int32") - data(*of_class(row, number)).astype("int32")
        return table(mark_bounded(distance))  # no element exceeds the largest element

    def share(row: tuple[Any, ...], number: Any) -> Integer:
        return ((exponential(row, number) >> (SUM_INTEGER_BITS - 1)) + 1) >> 1

    total = te.compute(shape, lambda *i: te.sum(share(i, add), axis=add), name="total")
    inverse = te.compute(
        shape, lambda *i: call_fixed_point("fixed_reciprocal", total(*i)), name="inverse"
    )
    power = te.compute(shape, lambda *i: call_fixed_point("fixed_log2", total(*i)), name="power")

    def quotient(row: tuple[Any, ...], number: Any, bits: int) -> Integer:
        product = call_fixed_point("fixed_product", inverse(*row), exponential(row, number))
        # The sum is 2^(power - 19) in Q12.19, and the result has fewer than the quotient's 31 bits.
        return call_fixed_point("fixed_shift", product, power(*row) - SUM_FRACTION_BITS + 31 - bits)

    def element(*indices: Any) -> Integer:
        row, number = indices[:axis] + indices[axis + 1 :], indices[axis]
        bits = np.iinfo(params.dtype).bits
        if params.zero_point == find_integer_limits(params.dtype)[0] and math.isclose(
            params.scale, 2.0**-bits, rel_tol=SCALE_TOLERANCE
        ):
            return to_storage(quotient(row, number, bits), params)
        factors = to_fixed_point(np.array([2.0**-16 / np.float64(params.scale)]))
        largest_quotient = 2**16 << int(factors.left_shift[0])
        fine = quotient(row, number, 16)
        return to_storage(apply_scale(fine, *immediates(factors), largest_quotient), params)

    return te.compute(data.shape, element, name="softmax")


def make_exp_table(scale: float) -> npt.NDArray[np.int32]:
    """Return exp(-distance · scale) in Q0.31 for distances from 0 to 255.

    Negligible exponentials are 0.
    """
    factor = scale * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS)
    if factor >= 2.0**LARGEST_SHIFT:
        # A mask such as -1e9 has such a scale. Only the largest elements have a share, because
        # SoftmaxPrepare limits the factor, and the radius of its shift of 31 is 0.
        return np.array([INT32_MAX, *[0] * 255], "int32")
    mantissa, shift = quantize_multiplier(factor)
    whole = (2**DIFFERENCE_INTEGER_BITS - 1) * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS)
    farthest = math.floor(whole / 2.0**shift)
    return np.array(
        [
            exp_on_negative_values(apply_multiplier(-distance, mantissa, shift))
            if distance <= farthest
            else 0
            for distance in range(256)
        ],
        "int32",
    )


def exp_on_negative_values(x: int) -> int:
    """Return exp(x) in Q0.31 for x <= 0 in Q5.26, like gemmlowp's exp_on_negative_values."""
    if x == 0:
        return INT32_MAX
    quarter = 1 << 24
    rest = (x & (quarter - 1)) - quarter
    result = exp_near_zero(rest * 2**DIFFERENCE_INTEGER_BITS)
    remainder = rest - x
    for power, multiplier in EXP_OF_POWERS:
        if remainder & (1 << (26 + power)):
            result = rounding_multiply_high(result, multiplier)
    return result


def exp_near_zero(x: int) -> int:
    """Return exp(x) for x in [-1/4, 0), from four terms around -1/8.

    The argument and the result are in Q0.31.
    """
    x += 1 << 28
    square = rounding_multiply_high(x, x)
    cube, fourth = rounding_multiply_high(square, x), rounding_multiply_high(square, square)
    third = rounding_multiply_high(rounding_shift_right(fourth, 2) + cube, ONE_THIRD) + square
    return EXP_OF_MINUS_EIGHTH + rounding_multiply_high(
        EXP_OF_MINUS_EIGHTH, x + rounding_shift_right(third, 1)
    )


def softmax_int16(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute softmax over the last axis with two interpolation tables.

    Source: tensorflow/lite/kernels/activations.cc (SoftmaxPrepare), internal/reference/softmax.h
    (SoftmaxInt16).
    """
    source = builder.find_integers(call.args[0], 16)
    shape = static_shape(call)
    if source is None or int(call.attrs.axis) not in (-1, len(shape) - 1):
        return None
    if (params.dtype, params.scale, params.zero_point) != ("int16", Q15, 0):
        return None
    unit = MAX_DISTANCE / INT16_RANGE
    powers = interpolation_table(math.exp, (unit, 2.0 / INT16_RANGE), (INT16_MAX, 0), np.float64)
    inverses = interpolation_table(
        lambda x: 1 / (1 + x), (1.0 / INT16_RANGE, 2.0 / INT16_RANGE), (INT16_MIN, 0), np.float64
    )
    factors = to_fixed_point(source.scale / unit)
    tables = [
        builder.emit_constant("exponentials", powers),
        builder.emit_constant("reciprocals", inverses),
    ]
    rows, classes = shape[:-1], shape[-1]

    def compute(data: te.Tensor, powers: te.Tensor, inverses: te.Tensor) -> te.Tensor:
        scan, add = (te.reduce_axis((0, classes)) for _ in range(2))
        largest = te.compute(rows, lambda *i: te.max(data(*i, scan), axis=scan), name="largest")

        def exponential(*indices: Any) -> Integer:
            distance = data(*indices).astype("int32") - largest(*indices[:-1]).astype("int32")
            widest = INT16_RANGE << int(factors.left_shift[0])
            argument = apply_scale(distance, *immediates(factors), largest=widest) + INT16_MAX
            return interpolate(te.min(te.max(argument, INT16_MIN), INT16_MAX), powers)

        total = te.compute(rows, lambda *i: te.sum(exponential(*i, add), axis=add), name="total")
        inverse = te.compute(
            rows,
            lambda *i: interpolate(call_fixed_point("fixed_share", total(*i)), inverses),
            name="inverse",
        )

        def element(*indices: Any) -> Integer:
            row = indices[:-1]
            share = call_fixed_point(
                "fixed_quotient", exponential(*indices), inverse(*row), total(*row)
            )
            return to_storage(te.max(share, 0), params)

        return te.compute(shape, element, name="softmax")

    return builder.emit_te("softmax", compute, source.data, *tables)
