"""Reads a region as a softmax of rows of bytes in ONNX's rounding.

The softmax is computed in float32.
"""

from __future__ import annotations

from math import prod

from firmwright.ir.layer import Softmax
from firmwright.ir.nodes import Function
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes, reads_parameter


def read_softmax(function: Function, rounding: str) -> Softmax | None:
    """Return the softmax that a region's function computes, or None for other functions.

    ``rounding`` is the recipe's rounding. TFLite's kernel computes a softmax on integers, so the
    result is None for "tflite".
    """
    if rounding == "tflite":
        return None
    found = find_quantized_call(function, rounding, 1, ("relax.nn.softmax",))
    if found is None:
        return None
    definitions, call, params = found
    shape = static_shape(call)
    data = read_bytes(call.args[0], definitions)
    if data is None or int(call.attrs.axis) % len(shape) != len(shape) - 1:
        return None
    if not reads_parameter(data.data, function.params[0], definitions):
        return None
    return Softmax(
        rows=prod(shape[:-1]),
        length=shape[-1],
        input_dtype=dtype_of(data.data),
        input_scale=float(data.scale[0]),
        input_zero_point=int(data.zero_point[0]),
        output_dtype=params.dtype,
        scale=float(params.scale),
        zero_point=params.zero_point,
        low=params.low,
        high=params.high,
    )
