"""Comparisons of two 8-bit tensors, as TFLite's reference kernels do them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import operator_name, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.elementwise import find_operands, read_centered
from firmwright.lowering.kernels.fixed_point import Integer, apply_scale, to_fixed_point
from firmwright.lowering.kernels.requantization import immediates

HEADROOM_BITS = 8
"""Bits that both sides are shifted left before they are scaled to units of 1/256."""

COMPARISONS: dict[str, Callable[[Integer, Integer], Integer]] = {
    "relax.equal": tirx.EQ,
    "relax.not_equal": tirx.NE,
    "relax.less": tirx.LT,
    "relax.less_equal": tirx.LE,
    "relax.greater": tirx.GT,
    "relax.greater_equal": tirx.GE,
}


def compare(builder: RegionBuilder, call: tvm.ir.Call) -> relax.Expr | None:
    """Scale both sides to one unit, rounded: nearby values of fine grids become equal.

    Source: tensorflow/lite/kernels/comparisons.cc and internal/reference/comparisons.h
    (ComparisonWithScaling), whose results make no sense for scales of 1 and more; these do.
    """
    operands = find_operands(builder, call, 8)
    if operands is None:
        return None
    factors = [to_fixed_point(o.scale) for o in operands]
    holds = COMPARISONS[operator_name(call)]

    def compute(*sides: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            values = [
                apply_scale(
                    read_centered(data, operand, indices) * 2**HEADROOM_BITS, *immediates(factor),
                    largest=operand.largest << HEADROOM_BITS + int(factor.left_shift[0]),
                )
                for data, operand, factor in zip(sides, operands, factors, strict=True)
            ]  # fmt: skip
            return holds(*values)

        return te.compute(static_shape(call), element, name="compared")

    return builder.emit_te("compare", compute, *(o.data for o in operands))
