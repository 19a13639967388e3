"""Converts L2_NORMALIZATION of integers, bit-exact to LiteRT."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from firmwright.models.tflite.svdf import read_zero_point


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
