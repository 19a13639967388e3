"""Softmax of 8-bit tensors in fixed point, as TFLite's reference kernel computes it.

Source: tensorflow/lite/kernels/internal/reference/softmax.h, internal/common.h (GetReciprocal)
and gemmlowp's fixedpoint/fixedpoint.h. "Q5.26" is a signed integer of 5 integer and 26
fraction bits. Exponentials depend only on the distance to the row's largest value, one of 256,
so they are a table; the reciprocal of their sum takes three Newton steps at run time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.targets.cpu.fixed_point import (
    Integer,
    call,
    half_away,
    high_product,
    quantise_multiplier,
)
from firmwright.targets.cpu.quantised import Grid, Quantised, smallest_integer
from firmwright.targets.cpu.requantization import stored
from firmwright.targets.cpu.softmax_wide import softmax_wide
from firmwright.transforms.rewriting import dtype_of, static_shape

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic

DIFFERENCE_INTEGER_BITS = 5
SUM_INTEGER_BITS = 12
ONE_IN_SUM = 31 - SUM_INTEGER_BITS
"""The binary logarithm of 1 in Q12.19."""
LONGEST_ROW = 2**9 - 1
"""With more classes the reference kernel may refuse to run: a sum of 2^9 leaves no output bits."""
INT32_MAX = 2**31 - 1

EXP_OF_POWERS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308),
    (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip
"""exp(-2^n) in Q0.31 by n: gemmlowp's constants, which its results depend on."""
EXP_OF_MINUS_EIGHTH = 1895147668
ONE_THIRD = 715827883


def softmax(region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Softmax over the last axis, to scale 1/256 from the type's smallest integer up."""
    source = region.value(operator.args[0])
    if not isinstance(source, Quantised) or not (source.per_tensor and source.eight_bit):
        return softmax_wide(region, operator, grid)
    shape = static_shape(operator)
    if int(operator.attrs.axis) not in (-1, len(shape) - 1) or shape[-1] > LONGEST_ROW:
        return None
    fixed = (np.float32(1 / 256), smallest_integer(grid.dtype), dtype_of(source.data))
    if (grid.scale, grid.zero_point, grid.dtype) != fixed:
        return None
    table = region.constant("exponentials", exponentials(float(source.scale[0])))

    def compute(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        return softmax_rows(data, table, shape, grid)

    return region.emit_te("softmax", compute, source.data, table)


def softmax_rows(
    data: te.Tensor, table: te.Tensor, shape: tuple[int, ...], grid: Grid
) -> te.Tensor:
    rows, classes = shape[:-1], shape[-1]
    scan, add = (te.reduce_axis((0, classes)) for _ in range(2))
    largest = te.compute(rows, lambda *i: te.max(data(*i, scan), axis=scan), name="largest")

    def exponential(*indices: Any) -> Integer:
        return table(largest(*indices[:-1]).astype("int32") - data(*indices).astype("int32"))

    def share(*indices: Any) -> Integer:
        """One class's exponential in Q12.19, rounded."""
        return ((exponential(*indices) >> (SUM_INTEGER_BITS - 1)) + 1) >> 1

    total = te.compute(rows, lambda *i: te.sum(share(*i, add), axis=add), name="total")
    inverse = te.compute(rows, lambda *i: call("fixed_reciprocal", total(*i)), name="inverse")
    power = te.compute(rows, lambda *i: call("fixed_log2", total(*i)), name="power")

    def element(*indices: Any) -> Integer:
        row = indices[:-1]
        product = call("fixed_product", inverse(*row), exponential(*indices))
        # The sum is 2^(power - 19) in Q12.19, and 8 of the quotient's 31 bits are asked for.
        return stored(call("fixed_shift", product, power(*row) - ONE_IN_SUM + 31 - 8), grid)

    return te.compute(shape, element, name="softmax")


def exponentials(scale: float) -> npt.NDArray[np.int32]:
    """Return exp(-distance · scale) in Q0.31 for distances 0..255, 0 where it is negligible."""
    factor = min(scale * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS), 2.0**31 - 1.0)
    mantissa, shift = quantise_multiplier(factor)
    whole = (2**DIFFERENCE_INTEGER_BITS - 1) * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS)
    farthest = math.floor(whole / 2.0**shift)
    return np.array(
        [
            exponential(high_product(-distance * 2**shift, mantissa)) if distance <= farthest else 0
            for distance in range(256)
        ],
        "int32",
    )


def exponential(x: int) -> int:
    """Return exp(x) in Q0.31 for x <= 0 in Q5.26, as gemmlowp's exp_on_negative_values."""
    if x == 0:
        return INT32_MAX
    quarter = 1 << 24
    rest = (x & (quarter - 1)) - quarter
    result = exponential_near_zero(rest * 2**DIFFERENCE_INTEGER_BITS)
    remainder = rest - x
    for power, multiplier in EXP_OF_POWERS:
        if remainder & (1 << (26 + power)):
            result = high_product(result, multiplier)
    return result


def exponential_near_zero(x: int) -> int:
    """Return exp(x) for x in [-1/4, 0), both in Q0.31: four terms around -1/8."""
    x += 1 << 28
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    third = high_product(half_away(fourth, 2) + cube, ONE_THIRD) + square
    return EXP_OF_MINUS_EIGHTH + high_product(EXP_OF_MINUS_EIGHTH, x + half_away(third, 1))
