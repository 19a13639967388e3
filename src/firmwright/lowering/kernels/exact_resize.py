"""Resizes 8-bit pictures bilinearly and exactly in ONNX's rounding.

The sizes determine the fraction of every position between two pixels. Therefore each result is an
integer sum of four weighted pixels. All sums of a picture have one divisor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.chains import INT32_LIMIT
from firmwright.ir.relax import operator_name, static_shape
from firmwright.lowering.kernels.averages import has_ties
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer
from firmwright.lowering.kernels.float_scaling import FloatFactors
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
)
from firmwright.lowering.kernels.requantization import to_storage


@dataclass(frozen=True)
class PositionMap:
    """The positions of results on an axis of ``length`` pixels: (step · i + start) / unit."""

    length: int
    step: int
    start: int
    unit: int

    def find_neighbors(self, index: Integer) -> list[tuple[Integer, Integer]]:
        """Return the pixels before and after a result, and their weights.

        The sum of both weights is ``unit``.
        """
        last = (self.length - 1) * self.unit
        position = te.min(te.max(index * self.step + self.start, 0), last)
        before = te.floordiv(position, self.unit)
        share = position - before * self.unit
        return [(before, self.unit - share), (te.min(before + 1, self.length - 1), share)]


def resize_exactly(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Return the resized integers, or None if rounding errors determine ties at these scales.

    If a sum is half way between two integers, the result is the even integer, as in float64. If
    every operator rounds to float32, the result can be either integer.
    """
    if operator_name(call) != "relax.image.resize2d" or str(call.attrs.method) != "linear":
        return None
    source = builder.find_integers(call.args[0], 8)
    layout = str(call.attrs.layout)
    if source is None or not layout.isupper():
        return None
    axes = layout.index("H"), layout.index("W")
    mode = str(call.attrs.coordinate_transformation_mode)
    sizes = [(static_shape(source.data)[a], static_shape(call)[a]) for a in axes]
    lines = [find_line(*size, mode) for size in sizes]
    if None in lines:
        return None
    rows, columns = (line for line in lines if line)
    unit = rows.unit * columns.unit
    divide = find_division(source, params, unit)
    if divide is None:
        return None
    zero_point = int(source.zero_point[0])

    def element(indices: Any, data: te.Tensor) -> Integer:
        total: Integer = 0
        for row, vertical in rows.find_neighbors(indices[axes[0]]):
            for column, horizontal in columns.find_neighbors(indices[axes[1]]):
                where = list(indices)
                where[axes[0]], where[axes[1]] = row, column
                total += (data(*where).astype("int32") - zero_point) * (vertical * horizontal)
        return divide(total)

    return builder.emit_elements(
        "resize_linear", element, source.data, result="resized", shape=static_shape(call)
    )


def find_division(
    source: QuantizedTensor, params: OutputQuantParams, unit: int
) -> Callable[[Integer], Integer] | None:
    """Return a function that converts a sum with the total weight ``unit`` to an integer.

    The quotient of the scales must be a simple fraction, or ties must be as rare as in a
    convolution. The result is None for other quotients.
    """
    ratio = Fraction(float(source.scale[0])) / Fraction(float(params.scale)) / unit
    factor, divisor = ratio.numerator, ratio.denominator
    if 2 * source.largest * unit * factor + divisor < INT32_LIMIT:
        return lambda total: to_storage(divide_to_even(total * factor, divisor), params)
    if has_ties(source, params, unit):
        return None
    quotient = source.scale.astype("float32") / np.float32(unit) / params.scale
    factors = FloatFactors(quotient.astype("float32"), source.largest * unit, params)
    return (lambda total: factors.scale(total, (), 0)) if factors.fits else None


def find_line(length: int, extent: int, mode: str) -> PositionMap | None:
    """Return the positions of ``extent`` results among ``length`` pixels.

    The result is None for other modes.
    """
    if mode in ("half_pixel", "pytorch_half_pixel") and extent > 1:
        numbers = 2 * length, length - extent, 2 * extent
    elif mode == "align_corners" and extent > 1:
        numbers = length - 1, 0, extent - 1
    elif mode == "asymmetric":
        numbers = length, 0, extent
    else:
        return None
    shared = gcd(*numbers)
    step, start, unit = (number // shared for number in numbers)
    return PositionMap(length, step, start, unit)


def divide_to_even(value: Integer, divisor: int) -> Integer:
    if divisor == 1:
        return value
    doubled = 2 * value + divisor
    nearest = te.floordiv(doubled, 2 * divisor)
    halves = doubled - nearest * (2 * divisor)
    return nearest - te.if_then_else(halves == 0, te.floormod(nearest, 2), 0)
