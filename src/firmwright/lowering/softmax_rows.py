"""Reads a region as a softmax of rows of bytes.

ONNX computes the softmax in float32, and TFLite in fixed point.
"""

from __future__ import annotations

import math
from math import prod

from firmwright.ir.byte_layers import FixedSoftmax, Softmax
from firmwright.ir.nodes import Function
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes, reads_parameter
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, smallest_integer
from firmwright.lowering.kernels.softmax import MAX_CLASSES, SCALE_TOLERANCE


def read_softmax(function: Function, rounding: str) -> Softmax | None:
    """Return the softmax that a region's function computes, or None for other functions.

    ``rounding`` is the recipe's rounding, "tflite" or "onnx".
    """
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
    if rounding == "tflite" and not is_usual(shape[-1], params):
        return None
    make = FixedSoftmax if rounding == "tflite" else Softmax
    return make(
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


def is_usual(length: int, params: OutputQuantParams) -> bool:
    """Return whether TFLite's kernel supports the length of the rows and the output."""
    has_usual_scale = math.isclose(params.scale, 2.0**-8, rel_tol=SCALE_TOLERANCE)
    lowest = smallest_integer(params.dtype)
    return has_usual_scale and params.zero_point == params.low == lowest and length <= MAX_CLASSES
