"""Reads a region as a layer of bytes that is not linear: a softmax of rows, a bilinear resize, a
line or the logistic function. The results of a function of one byte are computed for all bytes.

ONNX computes the softmax in float32, and TFLite in fixed point. In ONNX's rounding, tables compute
functions of one byte, and TIR computes resizes.
"""

from __future__ import annotations

import math
from math import gcd, prod

import numpy as np

from firmwright.ir.byte_layers import ByteFunction, FixedSoftmax, Line, Resize, Softmax
from firmwright.ir.layer import Array, LayerKind
from firmwright.ir.nodes import Call, Function
from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes, reads_parameter
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    has_quant_params,
)
from firmwright.lowering.kernels.real_functions import evaluate
from firmwright.lowering.kernels.resize import MODES, ONE, ResizeAxis
from firmwright.lowering.kernels.softmax import MAX_CLASSES, SCALE_TOLERANCE
from firmwright.lowering.kernels.tables import real_values, to_storage_array
from firmwright.lowering.pairs import SIGNS, add_in_fixed_point, multiply_in_fixed_point
from firmwright.lowering.tflite_rounding import quantize_by_reciprocal

STEPS = 256
"""The steps of a byte in the range of the logistic function, from 0 to 1."""

FACTORS = {"relax.sigmoid": 1, "relax.tanh": 2}
"""tanh(x) is 2 · logistic(2 x) - 1, so both functions have one form of steps."""


def read_call(
    function: Function, rounding: str, operator: str
) -> tuple[Call, QuantizedTensor, OutputQuantParams] | None:
    """Return the only operator of a region, the bytes that it reads, and the output parameters.

    The result is None unless the operator has the name ``operator`` and reads the only input.
    """
    quantized_call = find_quantized_call(function, rounding, 1, (operator,))
    if quantized_call is None:
        return None
    definitions, call, params = quantized_call
    data = read_bytes(call.args[0], definitions)
    if data is None or not reads_parameter(data.data, function.params[0], definitions):
        return None
    return call, data, params


def read_softmax(function: Function, rounding: str) -> Softmax | None:
    """Return the softmax that a region's function computes, or None for other functions.

    ``rounding`` is the recipe's rounding, "tflite" or "onnx".
    """
    byte_call = read_call(function, rounding, "relax.nn.softmax")
    if byte_call is None:
        return None
    call, data, params = byte_call
    shape = static_shape(call)
    if int(call.attrs.axis) % len(shape) != len(shape) - 1:
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
    lowest, _ = find_integer_limits(params.dtype)
    return has_usual_scale and params.zero_point == params.low == lowest and length <= MAX_CLASSES


def read_resize(function: Function, rounding: str) -> Resize | None:
    """Return the resize that a region's function computes, or None for other functions."""
    resized = "relax.image.resize2d"
    byte_call = read_call(function, rounding, resized) if rounding == "tflite" else None
    if byte_call is None:
        return None
    call, data, params = byte_call
    if not has_quant_params(data, params) or dtype_of(data.data) != "int8":
        return None
    attributes = call.attrs
    mode = str(attributes.coordinate_transformation_mode)
    if str(attributes.method) != "linear" or mode not in MODES or str(attributes.layout) != "NHWC":
        return None
    if (params.low, params.high) != (-128, 127):
        return None
    batch, height, width, channels = static_shape(data.data)
    _, out_height, out_width, _ = static_shape(call)
    rows, columns = find_line(height, out_height, mode), find_line(width, out_width, mode)
    return Resize(batch=batch, channels=channels, rows=rows, columns=columns)


def find_line(length: int, extent: int, mode: str) -> Line:
    """Return the neighbors of ``extent`` results, with the smallest unit of their weights."""
    axis = ResizeAxis(length, extent, mode)
    pairs = [axis.find_neighbors(index) for index in range(extent)]
    before = tuple(int(first) for (first, _), _ in pairs)
    after = tuple(int(second) for _, (second, _) in pairs)
    # At a border, both neighbors are one pixel, and the weights can be outside of 0 to 1.
    shares = [
        0 if first == second else int(share)
        for first, second, (_, (_, share)) in zip(before, after, pairs, strict=True)
    ]
    step = gcd(ONE, *shares)
    return Line(length, before, after, tuple(share // step for share in shares), ONE // step)


def read_byte_function(function: Function, rounding: str) -> ByteFunction | None:
    """Return the function of one byte, or None for other regions and for ONNX's rounding.

    In ONNX's rounding, a table computes such functions.
    """
    operators = (*SIGNS, "relax.multiply", *FACTORS)
    quantized_call = (
        find_quantized_call(function, rounding, 1, operators) if rounding == "tflite" else None
    )
    if quantized_call is None:
        return None
    definitions, call, params = quantized_call
    terms = [read_bytes(a, definitions) for a in call.args]
    given = [t for t in terms if t is not None and not isinstance(t.data, Constant)]
    if None in terms or len(given) != 1 or static_shape(given[0].data) != static_shape(call):
        return None
    if not reads_parameter(given[0].data, function.params[0], definitions):
        return None
    if len(terms) == 1:
        return make_sigmoid(call, given[0], params)
    return make_line(call, [t for t in terms if t is not None], params)


def make_sigmoid(
    call: Call, source: QuantizedTensor, params: OutputQuantParams
) -> ByteFunction | None:
    """Return the logistic function or tanh, or None if 0 to 1 are not 256 steps of int8."""
    factor = FACTORS[operator_name(call)]
    middle = -STEPS // 2 * (2 - factor)
    if params.dtype != "int8" or params.zero_point != middle:
        return None
    if float(params.scale) * STEPS != factor or (params.low, params.high) != (-128, 127):
        return None
    whole = quantize_by_reciprocal(evaluate(call, [real_values(source)]), params.scale)
    results = to_storage_array(whole, params).astype("int64")
    slope = float(source.scale[0]) * factor
    return make_function(LayerKind.SIGMOID, call, source, params, results, slope)


def make_line(
    call: Call, terms: list[QuantizedTensor], params: OutputQuantParams
) -> ByteFunction | None:
    """Return a sum, difference or product with a constant, or None for several constants.

    The result is also None if the arithmetic might exceed 32 bits.
    """
    position = next(i for i, t in enumerate(terms) if isinstance(t.data, Constant))
    constant, source = terms[position], terms[1 - position]
    stored = constant_array(constant.data).reshape(-1)
    if stored.size != 1:
        return None
    signs = SIGNS.get(operator_name(call))
    steps = (
        multiply_in_fixed_point(terms, params)
        if signs is None
        else add_in_fixed_point(terms, params, signs)
    )
    if steps is None:
        return None
    index = int(stored[0]) - int(np.iinfo(dtype_of(constant.data)).min)
    results = np.clip(np.take(steps, index, position) + params.zero_point, params.low, params.high)
    slope = float(source.scale[0]) / float(params.scale)
    if signs is None:
        slope *= float(constant.scale[0]) * (int(stored[0]) - int(constant.zero_point[0]))
    else:
        slope *= signs[1 - position]
    return make_function(LayerKind.LINE, call, source, params, results, slope)


def make_function(
    kind: LayerKind,
    call: Call,
    source: QuantizedTensor,
    params: OutputQuantParams,
    results: Array,
    slope: float,
) -> ByteFunction:
    return ByteFunction(
        kind=kind,
        elements=prod(static_shape(call)),
        input_dtype=dtype_of(source.data),
        input_zero_point=int(source.zero_point[0]),
        output_dtype=params.dtype,
        results=results,
        low=params.low,
        high=params.high,
        slope=slope,
    )
