"""Converts operators that make tensors, change their types, or select between two.

The first sentence of each docstring describes TVM's error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.checks import RENEW
from firmwright.models.tflite.data_movement import read_inputs, shape_of


def convert_fill(converter: Any, op: Any) -> relax.Expr:
    """Convert FILL, because TVM rejects values that are known at run time."""
    sizes, value = converter.get_input_tensors(op)
    shape = [int(length) for length in converter.get_tensor_value(sizes).reshape(-1)]
    return relax.op.broadcast_to(converter.get_tensor_expr(value), shape)


def convert_range(converter: Any, op: Any) -> relax.Expr:
    """Convert RANGE, because TVM counts the elements of falling ranges incorrectly.

    Floats are sums of steps, as in tensorflow/lite/kernels/range.cc.
    """
    start, limit, step = (
        converter.get_tensor_value(t).reshape(()) for t in converter.get_input_tensors(op)
    )
    if not step:
        raise UserError(f"its step is 0; it must be a number other than 0: {RENEW}")
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(step))))
    values = np.full(count, step, step.dtype)
    if count:
        values[0] = start
    return relax.const(np.cumsum(values, dtype=step.dtype))


def convert_zeros_like(converter: Any, op: Any) -> relax.Expr:
    """Convert ZEROS_LIKE, because TVM has no loops for its operator."""
    (target,) = converter.get_output_tensors(op)
    return relax.op.zeros(
        shape_of(converter, target), converter.get_tensor_type_str(target.tensor.Type())
    )


def convert_select(converter: Any, op: Any) -> relax.Expr:
    """Convert SELECT, because TVM aligns a vector of conditions with the last axis."""
    condition, first, other = read_inputs(converter, op)
    rank, lengths = len(static_shape(first)), static_shape(condition)
    if len(lengths) == 1:
        condition = relax.op.reshape(condition, [*lengths, *[1] * (rank - 1)])
    return relax.op.where(condition, first, other)


def convert_cast(converter: Any, op: Any) -> relax.Expr:
    """Convert CAST, because TVM reads the options' type, TFLite only the type of the result.

    LiteRT limits floats to the range of an integer type; NaN becomes the largest integer. Source:
    tensorflow/lite/kernels/cast.cc.
    """
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.bb.normalize(converter.get_tensor_expr(source))
    dtype, given = converter.get_tensor_type_str(target.tensor.Type()), str(data.ty.dtype)
    if "int" not in dtype or "float" not in given:
        return relax.op.astype(data, dtype)
    limits = np.iinfo(dtype)
    low, beyond = (relax.const(float(n), given) for n in (limits.min, limits.max + 1))
    whole = relax.op.astype(relax.op.maximum(data, low), dtype)
    return relax.op.where(relax.op.less(data, beyond), whole, relax.const(limits.max, dtype))


def convert_bitcast(converter: Any, op: Any) -> relax.Expr:
    """Convert BITCAST, because TVM has no loops for its operator."""
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.bb.emit(converter.get_tensor_expr(source))
    before, after = str(data.ty.dtype), converter.get_tensor_type_str(target.tensor.Type())
    functions = {
        ("float32", "int32"): "float32_bits",
        ("int32", "float32"): "float32_of_bits",
    }
    if before == after:
        return data
    if (before, after) not in functions:
        raise UserError(
            f"reads {before} as {after}; firmwright reads float32 as int32 and int32 as float32: "
            "replace the operator, or end the model before the operator"
        )

    def compute(tensor: te.Tensor) -> te.Tensor:
        function = functions[before, after]
        kind = "uint32" if after == "int32" else after

        def element(*at: Any) -> Any:
            value = tensor(*at)
            value = value.astype("uint32") if before == "int32" else value
            return tirx.call_pure_extern(kind, function, value).astype(after)

        return te.compute(tensor.shape, element, "cast")

    return converter.bb.emit_te(compute, data, primfunc_name_hint="cast")
