"""Softmax of 16-bit tensors by two interpolation tables, as TFLite's reference kernel has it.

Source: tensorflow/lite/kernels/activations.cc (SoftmaxPrepare), internal/reference/softmax.h
(SoftmaxInt16).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import static_shape
from firmwright.lowering.fixed_point import Integer, call, factors_of, scaled
from firmwright.lowering.kernels.interpolation import (
    INT16_MAX,
    INT16_MIN,
    Q15,
    between,
    interpolation_table,
    sixteen_bit_source,
)
from firmwright.lowering.quantised import Grid
from firmwright.lowering.requantization import immediates, stored

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerArithmetic

RANGE = INT16_MAX - INT16_MIN
FARTHEST = 10.0
"""exp(-10) counts as nothing."""


def softmax_wide(region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Softmax over the last axis."""
    source = sixteen_bit_source(region, operator.args[0])
    shape = static_shape(operator)
    if source is None or int(operator.attrs.axis) not in (-1, len(shape) - 1):
        return None
    if (grid.dtype, grid.scale, grid.zero_point) != ("int16", Q15, 0):
        return None
    unit = FARTHEST / RANGE
    powers = interpolation_table(math.exp, (unit, 2.0 / RANGE), (INT16_MAX, 0), np.float64)
    inverses = interpolation_table(
        lambda x: 1 / (1 + x), (1.0 / RANGE, 2.0 / RANGE), (INT16_MIN, 0), np.float64
    )
    factors = factors_of(source.scale / unit)
    tables = [region.constant("exponentials", powers), region.constant("reciprocals", inverses)]
    rows, classes = shape[:-1], shape[-1]

    def compute(data: te.Tensor, powers: te.Tensor, inverses: te.Tensor) -> te.Tensor:
        scan, add = (te.reduce_axis((0, classes)) for _ in range(2))
        largest = te.compute(rows, lambda *i: te.max(data(*i, scan), axis=scan), name="largest")

        def exponential(*indices: Any) -> Integer:
            distance = data(*indices).astype("int32") - largest(*indices[:-1]).astype("int32")
            widest = RANGE << int(factors.left_shift[0])
            argument = scaled(distance, *immediates(factors), largest=widest) + INT16_MAX
            return between(te.min(te.max(argument, INT16_MIN), INT16_MAX), powers)

        total = te.compute(rows, lambda *i: te.sum(exponential(*i, add), axis=add), name="total")
        inverse = te.compute(
            rows, lambda *i: between(call("fixed_share", total(*i)), inverses), name="inverse"
        )

        def element(*indices: Any) -> Integer:
            row = indices[:-1]
            share = call("fixed_quotient", exponential(*indices), inverse(*row), total(*row))
            return stored(te.max(share, 0), grid)

        return te.compute(shape, element, name="softmax")

    return region.emit_te("softmax", compute, source.data, *tables)
