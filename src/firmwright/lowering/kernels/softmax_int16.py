"""Softmax of 16-bit tensors by two interpolation tables, as TFLite's reference kernel has it.

Source: tensorflow/lite/kernels/activations.cc (SoftmaxPrepare), internal/reference/softmax.h
(SoftmaxInt16).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    Integer,
    apply_scale,
    call_fixed_point,
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

INT16_RANGE = INT16_MAX - INT16_MIN
MAX_DISTANCE = 10.0
"""exp(-10) counts as nothing."""


def softmax_int16(
    builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams
) -> relax.Expr | None:
    """Softmax over the last axis."""
    source = builder.find_integers(call.args[0], 16)
    shape = static_shape(call)
    if source is None or int(call.attrs.axis) not in (-1, len(shape) - 1):
        return None
    if (grid.dtype, grid.scale, grid.zero_point) != ("int16", Q15, 0):
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
            return to_storage(te.max(share, 0), grid)

        return te.compute(shape, element, name="softmax")

    return builder.emit_te("softmax", compute, source.data, *tables)
