"""Averages of 8-bit tensors, as TFLite computes them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.targets.cpu.fixed_point import Factors, Integer, call, factors_of, scaled
from firmwright.targets.cpu.quantised import LARGEST_INT32, Grid, Quantised, on_grid
from firmwright.targets.cpu.requantization import clamped, immediates, stored
from firmwright.transforms.rewriting import operator_name, static_shape

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic


def average_pool(region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Average the stored integers of each window; padding is not counted.

    Source: tensorflow/lite/kernels/internal/reference/integer_ops/pooling.h.
    """
    source = region.value(operator.args[0])
    attributes = operator.attrs
    if not isinstance(source, Quantised) or not on_grid(source, grid):
        return None
    if str(attributes.layout) != "NHWC" or attributes.ceil_mode or attributes.count_include_pad:
        return None
    if any(int(d) != 1 for d in attributes.dilation):
        return None
    window = [int(n) for n in attributes.pool_size]
    strides = [int(n) for n in attributes.strides]
    before = [int(n) for n in attributes.padding][:2]
    extents = static_shape(source.data)[1:3]

    def start(place: Integer, axis: int) -> Integer:
        return place * strides[axis] - before[axis]

    def covered(place: Integer, axis: int) -> Integer:
        """Count the rows or columns of a window that lie inside the picture."""
        first = start(place, axis)
        return te.min(first + window[axis], extents[axis]) - te.max(first, 0)

    def compute(data: te.Tensor) -> te.Tensor:
        padded = any(int(n) for n in attributes.padding)
        rows, columns = (te.reduce_axis((0, n)) for n in window)

        def term(n: Any, y: Any, x: Any, c: Any) -> Integer:
            row, column = start(y, 0) + rows, start(x, 1) + columns
            value = data(n, row, column, c).astype("int32")
            if not padded:
                return value
            inside = te.all(row >= 0, row < extents[0], column >= 0, column < extents[1])
            return te.if_then_else(inside, value, 0)

        shape = static_shape(operator)
        sums = te.compute(
            shape, lambda *i: te.sum(term(*i), axis=[rows, columns]), name="window_sum"
        )

        def element(n: Any, y: Any, x: Any, c: Any) -> Integer:
            count = covered(y, 0) * covered(x, 1) if padded else window[0] * window[1]
            average = call("fixed_average", sums(n, y, x, c), count)
            return clamped(average, grid)

        return te.compute(shape, element, name="average")

    return region.emit_te("average_pool", compute, source.data)


def mean(region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Sum centred integers, then scale by the quotient of the scales divided by the count.

    The mantissa is divided as an integer, shifted left first by as much as the count takes away.
    Source: LiteRT's kernels/reduce.cc and internal/reference/integer_ops/mean.h; which of TFLite's
    several versions LiteRT 2.3.0 runs was found by comparing all of them with its results.
    """
    axes = [int(a) for a in operator.attrs.axis]
    return reduced(region, operator, grid, prod(static_shape(operator.args[0])[a] for a in axes))


def total(region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Sum centred integers, then scale by the quotient of the scales.

    (LiteRT 2.3.0's reference kernel takes int8 for uint8, its others do not; this does not.)
    """
    return reduced(region, operator, grid, 1)


def reduced(
    region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid, divisor: int
) -> relax.Expr | None:
    """Return the sum over the operator's axes, divided, on the grid."""
    source = region.value(operator.args[0])
    if not isinstance(source, Quantised) or not source.per_tensor:
        return None
    shape = static_shape(source.data)
    axes = sorted({int(a) % len(shape) for a in operator.attrs.axis})
    largest = source.largest * prod(shape[a] for a in axes)
    if largest >= LARGEST_INT32:
        return None
    factors = divided(factors_of(source.scale / np.float64(grid.scale)), divisor)
    zero_point, keep = int(source.zero_point[0]), bool(operator.attrs.keepdims)

    def compute(data: te.Tensor) -> te.Tensor:
        extents = static_shape(operator)
        sums = summed(data, extents, axes, keep, zero_point)
        shifted = largest << int(factors.left_shift[0])

        def element(*indices: Any) -> Integer:
            return stored(scaled(sums(*indices), *immediates(factors), shifted), grid)

        return te.compute(extents, element, name="reduced")

    return region.emit_te(operator_name(operator).removeprefix("relax."), compute, source.data)


def divided(factors: Factors, count: int) -> Factors:
    """Divide a single factor by a count."""
    shift = int(factors.shift[0])
    left = max(0, min(count.bit_length() - 1, 32, 31 + shift))
    mantissa = (int(factors.mantissa[0]) << left) // count
    return Factors(np.array([mantissa], "int32"), np.array([shift - left], "int8"))


def summed(
    data: te.Tensor, extents: tuple[int, ...], axes: list[int], keep: bool, zero_point: int
) -> te.Tensor:
    """Sum data - zero point over axes, which the result keeps with length 1 or not."""
    loops = {a: te.reduce_axis((0, data.shape[a])) for a in axes}

    def term(*kept: Any) -> Integer:
        places = iter(kept[a] for a in range(len(kept)) if not (keep and a in loops))
        where = [loops[a] if a in loops else next(places) for a in range(len(data.shape))]
        return data(*where).astype("int32") - zero_point

    return te.compute(extents, lambda *i: te.sum(term(*i), axis=list(loops.values())), name="total")
