"""Defines special loops for operators on the C7x, because TVM's loops call functions or branch.

The loops follow TI's compiler. A pooling of single elements only selects elements. A resize
computes positions without rounding functions, so that the compiler can pipeline the loops. The
results of both operators are bit-exact with TVM for finite numbers. TVM's loops compute a call if
exact results are not certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.strategies import Strategy

EXACT_LIMIT = 2**22
"""The limit of positions in units of their fraction.

Float32 represents all smaller positions exactly.
"""

ROUNDINGS = {"": 0, "floor": 0, "round_prefer_floor": 1, "round_prefer_ceil": 1}
"""The halves to add to a position for each rounding.

The integer part is then the nearest element.
"""


def is_subsampling(call: tvm.ir.Call) -> bool:
    """Return whether a pooling has 1x1 windows in NCHW, without padding and dilation."""
    a = call.attrs
    ones = all(int(n) == 1 for n in (*a.pool_size, *a.dilation))
    return ones and str(a.layout) == "NCHW" and not any(int(n) for n in a.padding)


def subsample(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return the selected elements: out[n, c, y, x] = in[n, c, y * down, x * right]."""
    down, right = (int(s) for s in call.attrs.strides)

    def compute(data: te.Tensor) -> te.Tensor:
        return te.compute(
            static_shape(call), lambda n, c, y, x: data[n, c, y * down, x * right], "picked"
        )

    return builder.call_te(compute, call.args[0])


@dataclass(frozen=True)
class AxisInterpolation:
    """An axis whose length changes from ``length`` elements to ``extent`` elements.

    ``scale`` is length / extent.
    """

    length: int
    extent: int

    @property
    def scale(self) -> Fraction:
        return Fraction(self.length, self.extent)

    @property
    def grain(self) -> Fraction:
        """Return the unit of positions: each center and each midpoint of two centers is a
        multiple."""
        return 1 / Fraction(2 * self.scale.denominator)

    @property
    def is_exact(self) -> bool:
        """Return whether float32 represents every position exactly, in any order of computation."""
        power_of_two = self.scale.denominator & (self.scale.denominator - 1) == 0
        return power_of_two and (self.length + 1) / self.grain < EXACT_LIMIT

    def source_position(self, index: tirx.Expr, shift: Fraction = Fraction(0)) -> tirx.Expr:
        """Return the float32 position of an output element's center among the source elements.

        The ``shift`` is added to the position.
        """
        start = self.scale / 2 - Fraction(1, 2) + shift
        scaled = index.astype("float32") * tirx.const(float(self.scale), "float32")
        return scaled + tirx.const(float(start), "float32")

    def nearest_index(self, index: tirx.Expr, rounding: str) -> tirx.Expr:
        if self.length == self.extent:
            return index
        shift = Fraction(ROUNDINGS[rounding], 2)
        if rounding == "round_prefer_floor":
            shift -= self.grain
        return self.clamp(self.index_before(index, shift))

    def index_before(self, index: tirx.Expr, shift: Fraction = Fraction(0)) -> tirx.Expr:
        """Return the index of the last element at or before the position.

        The position plus 1 is above 0. Therefore a cast to int32 rounds this sum down.
        """
        return self.source_position(index, shift + 1).astype("int32") - 1

    def clamp(self, element: tirx.Expr) -> tirx.Expr:
        return te.max(te.min(element, self.length - 1), 0)

    def neighbors(self, index: tirx.Expr) -> list[tuple[tirx.Expr, tirx.Expr | None]]:
        """Return the elements before and after the position, with their weights.

        If ``length`` and ``extent`` are equal, the result is one element without a weight.
        """
        if self.length == self.extent:
            return [(index, None)]
        before = self.index_before(index)
        share = self.source_position(index) - before.astype("float32")
        one = tirx.const(1.0, "float32")
        return [(self.clamp(before), one - share), (self.clamp(before + 1), share)]


def read_resize_axes(call: tvm.ir.Call) -> tuple[AxisInterpolation, AxisInterpolation]:
    layout = str(call.attrs.layout)
    before, after = static_shape(call.args[0]), static_shape(call)
    rows, columns = (
        AxisInterpolation(before[layout.index(a)], after[layout.index(a)]) for a in "HW"
    )
    return rows, columns


def is_exact_resize(call: tvm.ir.Call) -> bool:
    """Return whether centers are aligned and float32 represents all positions exactly."""
    a = call.attrs
    if str(a.layout) not in ("NCHW", "NHWC"):
        return False
    if str(a.coordinate_transformation_mode) != "half_pixel":
        return False
    nearest = a.method == "nearest_neighbor" and str(a.rounding_method) in ROUNDINGS
    linear = a.method == "linear" and dtype_of(call.args[0]) == dtype_of(call) == "float32"
    return (nearest or linear) and all(axis.is_exact for axis in read_resize_axes(call))


def resize(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return the nearest elements, or weighted sums of neighbors with TVM's weights."""
    rows, columns = read_resize_axes(call)
    layout, rounding = str(call.attrs.layout), str(call.attrs.rounding_method)
    axes = layout.index("H"), layout.index("W")

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> tirx.Expr:
            def at(row: tirx.Expr, column: tirx.Expr) -> tirx.Expr:
                where = list(indices)
                where[axes[0]], where[axes[1]] = row, column
                return data(*where)

            row, column = (indices[p] for p in axes)
            if call.attrs.method == "nearest_neighbor":
                return at(
                    rows.nearest_index(row, rounding), columns.nearest_index(column, rounding)
                )
            across = columns.neighbors(column)
            return sum_weighted(
                (sum_weighted((at(y, x), share) for x, share in across), down)
                for y, down in rows.neighbors(row)
            )

        return te.compute(static_shape(call), element, "resized")

    return builder.call_te(compute, call.args[0])


def sum_weighted(terms: Iterable[tuple[tirx.Expr, tirx.Expr | None]]) -> tirx.Expr:
    products = [value if weight is None else value * weight for value, weight in terms]
    return products[0] if len(products) == 1 else products[0] + products[1]


STRATEGIES = (
    Strategy("relax.nn.max_pool2d", subsample, condition=is_subsampling),
    Strategy("relax.image.resize2d", resize, condition=is_exact_resize),
)
