"""Converts reductions and sums of consecutive elements, in LiteRT's order.

L2_NORMALIZATION and REDUCE_PROD of integers are bit-exact to LiteRT. The first sentence of each
docstring describes TVM's error.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.models.tflite.data_movement import shape_of
from firmwright.models.tflite.integer_products import find_factor, read_scale, read_zero_point


def convert_l2_normalization(converter: Any, op: Any) -> relax.Expr:
    """Convert L2_NORMALIZATION, because TVM has no integers, LiteRT computes a root in fixed point.

    A result has 128 steps per unit. Sources: l2normalization.h in
    tensorflow/lite/kernels/internal/reference and in its folder integer_ops.
    """
    (source,) = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    if source.qnn_params is None:
        return converter.convert_l2_normalization(op)
    given = converter.bb.normalize(converter.get_tensor_expr(source))
    shape = [int(extent) for extent in given.ty.shape]
    rows = converter.bb.emit(relax.op.reshape(given, [prod(shape[:-1]), shape[-1]]))
    of_source, of_target = read_zero_point(source), read_zero_point(target)
    dtype = converter.get_tensor_type_str(target.tensor.Type())
    limits, zero = np.iinfo(dtype), tirx.const(0, "int32")

    def compute(data: te.Tensor) -> te.Tensor:
        axis = te.reduce_axis((0, data.shape[1]))

        def center(row: Any, column: Any) -> Any:
            return data(row, column).astype("int32") - of_source

        def call(name: str) -> te.Tensor:
            find = lambda row: tirx.call_pure_extern("int32", name, squares(row))  # noqa: E731
            return te.compute(squares.shape, find, name.removeprefix("fixed_"))

        def scale(row: Any, column: Any) -> Any:
            value, left, right = center(row, column), zero, shifts(row)
            if dtype == "int8":  # the factor of 128 shortens the right shift
                left, right = tirx.max(7 - right, 0), tirx.max(right - 7, 0)
            else:
                value = value * 128
            numbers = (value, roots(row), left, right)
            moved = tirx.call_pure_extern("int32", "fixed_scale_any", *numbers) + of_target
            return tirx.max(tirx.min(moved, int(limits.max)), int(limits.min)).astype(dtype)

        squares = te.compute(
            data.shape[:1],
            lambda row: te.sum(center(row, axis) * center(row, axis), axis=axis),
            "squares",
        )
        roots, shifts = call("fixed_inverse_root"), call("fixed_root_shift")
        return te.compute(data.shape, scale, "normalized")

    result = converter.bb.emit_te(compute, rows, primfunc_name_hint="l2_normalization")
    return relax.op.reshape(result, shape)


LONGEST = 64
"""The maximum number of factors, because the C code of a result has an expression per factor."""


def convert_reduce_prod(converter: Any, op: Any) -> relax.Expr:
    """Convert REDUCE_PROD, because LiteRT scales and rounds integers after each factor.

    TVM converts floats, and products of more factors than :data:`LONGEST`. Source:
    tensorflow/lite/kernels/internal/reference/reduce.h (QuantizedReduceProd).
    """
    source, axes = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    shape = shape_of(converter, source)
    reduced = {int(a) % len(shape) for a in converter.get_tensor_value(axes).reshape(-1)}
    factors = [range(n) if axis in reduced else range(1) for axis, n in enumerate(shape)]
    count = prod(map(len, factors))
    if source.qnn_params is None or count > LONGEST:
        return converter._convert_reduce(relax.op.prod, op)
    scale = float(read_scale(source)) / float(read_scale(target)) ** (1 / count)
    multiplier, left, right = find_factor(np.float64(scale))
    multiplier = min((multiplier + (1 << 15)) >> 16, 0x7FFF)  # LiteRT's arithmetic for 64 bits
    numbers = (tirx.const(multiplier, "int32"), tirx.const(right - left, "int32"))
    zero_points = (read_zero_point(source), read_zero_point(target))
    limits = np.iinfo(converter.get_tensor_type_str(target.tensor.Type()))

    def scale_product(value: Any) -> Any:
        return tirx.call_pure_extern("int32", "fixed_scale_wide", value.astype("int64"), *numbers)

    def compute(data: te.Tensor) -> te.Tensor:
        def multiply(*at: Any) -> Any:
            total = None
            for position in np.ndindex(*map(len, factors)):
                index = [p if a in reduced else at[a] for a, p in enumerate(position)]
                value = data(*index).astype("int32") - zero_points[0]
                total = value if total is None else scale_product(total.astype("int64") * value)
            moved = scale_product(total) + zero_points[1]
            return tirx.max(tirx.min(moved, int(limits.max)), int(limits.min)).astype(data.dtype)

        kept = [1 if axis in reduced else n for axis, n in enumerate(shape)]
        return te.compute(kept, multiply, "product")

    given = converter.bb.emit(converter.get_tensor_expr(source))
    result = converter.bb.emit_te(compute, given, primfunc_name_hint="product")
    options = converter._get_builtin_options(op, tflite.ReducerOptions)
    if options.KeepDims():
        return result
    rest = [n for axis, n in enumerate(shape) if axis not in reduced]
    return relax.op.reshape(result, rest)


QUANTIZED = (
    "is quantized, which LiteRT, the reference, does not support: keep the operator in float32"
)


def convert_cumulative_sum(converter: Any, op: Any) -> relax.Expr:
    """Convert CUMSUM, because TVM cannot lower its cumsum to loops, and has no reversed cumsum.

    Source: tensorflow/lite/kernels/internal/reference/cumsum.h.
    """
    source, axis_tensor = converter.get_input_tensors(op)
    if source.qnn_params is not None:
        raise UserError(QUANTIZED)
    options = converter._get_builtin_options(op, tflite.CumsumOptions)
    axis = int(converter.get_tensor_value(axis_tensor).reshape(-1)[0])
    axis %= len(shape_of(converter, source))

    def accumulate(data: te.Tensor) -> te.Tensor:
        length = int(data.shape[axis])
        step = te.reduce_axis((0, length), "step")

        def total(*at: Any) -> Any:
            position = length - 1 - step if options.Reverse() else step
            after, before = (position, at[axis]) if options.Reverse() else (at[axis], position)
            counted = before < after if options.Exclusive() else before <= after
            value = data(*at[:axis], position, *at[axis + 1 :])
            return te.sum(te.if_then_else(counted, value, tirx.const(0, data.dtype)), axis=step)

        return te.compute(data.shape, total, "cumulated")

    given = converter.bb.emit(converter.get_tensor_expr(source))
    return converter.bb.emit_te(accumulate, given, primfunc_name_hint="cumsum")


def convert_local_response_normalization(converter: Any, op: Any) -> relax.Expr:
    """Convert LOCAL_RESPONSE_NORMALIZATION, because TVM's divisors at the ends differ.

    TVM divides windows at the ends by fewer channels.

    TFLite omits the channel at distance ``radius`` after the center. Source:
    tensorflow/lite/kernels/internal/reference/reference_ops.h (LocalResponseNormalization).
    """
    (source,) = converter.get_input_tensors(op)
    if source.qnn_params is not None:
        raise UserError(QUANTIZED)
    options = converter._get_builtin_options(op, tflite.LocalResponseNormalizationOptions)
    radius = options.Radius()

    def normalize(data: te.Tensor) -> te.Tensor:
        channels = int(data.shape[-1])
        offset = te.reduce_axis((0, 2 * radius), "offset")

        def square(*at: Any) -> Any:
            channel = at[-1] + offset - radius
            value = data(*at[:-1], te.max(te.min(channel, channels - 1), 0))
            inside = te.all(channel >= 0, channel < channels)
            return te.sum(te.if_then_else(inside, value * value, 0.0), axis=offset)

        sums = te.compute(data.shape, square, "squares")
        bias, alpha, power = (
            tirx.const(v, "float32") for v in (options.Bias(), options.Alpha(), -options.Beta())
        )
        return te.compute(
            data.shape, lambda *at: data(*at) * te.power(bias + alpha * sums(*at), power), "scaled"
        )

    given = converter.bb.emit(converter.get_tensor_expr(source))
    return converter.bb.emit_te(normalize, given, primfunc_name_hint="normalize")
