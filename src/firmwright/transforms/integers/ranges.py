"""Finds the range of each tensor for all inputs, and whether the numbers are whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.operators import PERMUTATIONS, relax_names
from firmwright.ir.relax import dtype_of, operator_name, read_variables, static_shape
from firmwright.transforms.integers.elementwise_functions import (
    Array,
    ElementwiseFunction,
    Values,
    are_whole,
    is_float,
    read_constant,
    read_function,
)

EXACT = 2.0**24
"""Below this limit, whole numbers and their sums in any order are exact in float32."""

LARGEST = 2.0**62
"""Below this limit, sums and products of integers fit int64."""

SUMS = relax_names("nn.conv1d nn.conv2d matmul")

MOVING = PERMUTATIONS | relax_names("nn.max_pool2d strided_slice")
"""Operators whose result elements are all elements of their first operand."""


@dataclass(frozen=True)
class Range:
    """The smallest and the largest number, as arrays that broadcast to a tensor's shape.

    The arrays are int64 for integers. Floats without limits have the range from minus to plus
    infinity, and may be NaN.
    """

    low: Array
    high: Array
    is_whole: bool

    @property
    def magnitude(self) -> float:
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))

    def lies_within(self, dtype: str) -> bool:
        limits = np.iinfo(dtype)
        return bool(self.low.min() >= limits.min and self.high.max() <= limits.max)

    def join(self) -> Range:
        return Range(np.asarray(self.low.min()), np.asarray(self.high.max()), self.is_whole)


def find_ranges(
    parameters: Sequence[relax.Var], bindings: Sequence[relax.VarBinding]
) -> dict[relax.Var, Range]:
    """Return the ranges of floats and integers. Unknown ranges are the ranges of the types."""
    values = {b.var: b.value for b in bindings}
    ranges: dict[relax.Var, Range] = {}
    for variable in [*parameters, *values]:
        bounded = find_range(values[variable], ranges, values) if variable in values else None
        if bounded is None:
            bounded = limit_by_type(variable)
        if bounded is not None:
            ranges[variable] = bounded
    return ranges


def limit_by_type(variable: relax.Var) -> Range | None:
    """Return the range of a type, or None for bool, float16, and values that are not tensors."""
    dtype = str(variable.ty.dtype) if isinstance(variable.ty, relax.TensorType) else ""
    if dtype in ("float32", "float64"):
        return Range(np.array(-np.inf, dtype), np.array(np.inf, dtype), False)
    if not dtype.startswith(("int", "uint")) or dtype == "uint64":
        return None
    limits = np.iinfo(dtype)
    # The lowest int64 has no magnitude in int64. In float32, its neighbor is an equal number.
    low = max(int(limits.min), -int(np.iinfo("int64").max))
    return Range(np.array(low, "int64"), np.array(limits.max, "int64"), True)


def find_range(value: relax.Expr, ranges: dict[relax.Var, Range], values: Values) -> Range | None:
    name = operator_name(value)
    if name in SUMS:
        return sum_range(value, ranges, values)
    function = read_function(value, values)
    if function is not None:
        source = ranges.get(function.source)
        return None if source is None else function_range(function, source, value)
    operands = [ranges.get(v) for v in read_variables(value)]
    if not operands or any(o is None for o in operands):
        return None
    known = [o for o in operands if o is not None]
    if name in MOVING:
        return known[0].join()
    if name == "relax.nn.pad" and str(value.attrs.pad_mode) == "constant":
        return include(known[0].join(), float(value.attrs.pad_value))
    if name == "relax.concat":
        joined = [o.join() for o in known]
        low, high = min(o.low for o in joined), max(o.high for o in joined)
        return Range(low, high, all(o.is_whole for o in joined))
    if name == "relax.add" and len(known) == 2:
        return add_ranges(known[0], known[1], value)
    return None


def include(source: Range, number: float) -> Range:
    whole = source.is_whole and number == np.floor(number)
    numbers = np.array(number).astype(source.low.dtype)
    return Range(np.minimum(source.low, numbers), np.maximum(source.high, numbers), whole)


def function_range(function: ElementwiseFunction, source: Range, value: relax.Expr) -> Range | None:
    """Return the range of a monotone operator's results from the ends of its operand's range.

    None if the results may overflow, or if the range does not fit the type or the shape.
    """
    if operator_name(value) == "relax.where" and not np.isfinite(source.magnitude):
        source = include(source, 0.0)
    if function.may_overflow and not is_float(value):
        ends = [np.abs(function.compute(n.astype("float64"))) for n in (source.low, source.high)]
        if np.maximum(*ends).max() >= LARGEST:
            return None
    if (
        is_float(function.source)
        and not is_float(value)
        and not source.lies_within(dtype_of(value))
    ):
        return None
    with np.errstate(all="ignore"):
        ends = [function.compute(source.low), function.compute(source.high)]
    whole = source.is_whole if function.is_whole is None else function.is_whole
    return check_range(Range(np.minimum(*ends), np.maximum(*ends), whole), value)


def check_range(interval: Range, value: relax.Expr) -> Range | None:
    """Return a range without NaN that fits the shape and the type of the tensor, or None."""
    if np.isnan(interval.magnitude) or interval.low.ndim > len(static_shape(value)):
        return None
    return interval if is_float(value) or interval.lies_within(dtype_of(value)) else None


def add_ranges(left: Range, right: Range, value: relax.Expr) -> Range | None:
    """Return the range of a sum of whole numbers, or None if float32 does not add exactly."""
    exact = left.is_whole and right.is_whole and left.magnitude + right.magnitude < EXACT
    if not exact or static_shape(value.args[0]) != static_shape(value.args[1]):
        return None
    left, right = left.join(), right.join()
    return check_range(Range(left.low + right.low, left.high + right.high, True), value)


def sum_range(call: tvm.ir.Call, ranges: dict[relax.Var, Range], values: Values) -> Range | None:
    """Return the range of sums of products, or None if the order has an effect."""
    data, weights = ranges.get(call.args[0]), read_constant(call.args[1], values)
    if data is None or weights is None or not data.is_whole or not are_whole(weights):
        return None
    axis = find_output_axis(call)
    if axis is None or not np.isfinite(data.magnitude):
        return None
    low, high = int(data.low.min()), int(data.high.max())
    if operator_name(call) != "relax.matmul" and any(int(p) for p in call.attrs.padding):
        low, high = min(low, 0), max(high, 0)
    columns = np.moveaxis(weights.astype("float64"), axis, 0).reshape(weights.shape[axis], -1)
    largest = np.abs(columns).sum(1).max() * max(abs(low), abs(high))
    if largest >= (EXACT if is_float(call) else 2.0**31):
        return None
    rising, falling = np.maximum(columns, 0).sum(1), np.minimum(columns, 0).sum(1)
    shape = shape_of_channels(call, columns.shape[0])
    kind = dtype_of(call) if is_float(call) else "int64"
    least, most = rising * low + falling * high, rising * high + falling * low
    return check_range(
        Range(least.reshape(shape).astype(kind), most.reshape(shape).astype(kind), True), call
    )


def largest_partial_sum(call: tvm.ir.Call, data: Range, weights: Array) -> float:
    axis = find_output_axis(call) or 0
    columns = np.moveaxis(np.abs(weights.astype("float64")), axis, 0).reshape(
        weights.shape[axis], -1
    )
    return float(columns.sum(1).max() * data.magnitude)


def find_output_axis(call: tvm.ir.Call) -> int | None:
    """Return the axis of the weights for the channels of the result, or None."""
    if operator_name(call) == "relax.matmul":
        return 1 if len(static_shape(call.args[1])) == 2 else None
    return str(call.attrs.kernel_layout).index("O")


def shape_of_channels(call: tvm.ir.Call, channels: int) -> list[int]:
    """Return a shape that broadcasts one number per channel to the result."""
    shape = [1] * len(static_shape(call))
    axis = -1
    if operator_name(call) != "relax.matmul":
        axis = (str(call.attrs.out_layout) or str(call.attrs.data_layout)).index("C")
    shape[axis] = channels
    return shape
