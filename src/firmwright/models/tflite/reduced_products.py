"""Converts REDUCE_PROD of integers. The results are bit-exact to LiteRT."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx

from firmwright.models.tflite.data_movement import shape_of
from firmwright.models.tflite.svdf import find_factor, read_scale, read_zero_point

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
