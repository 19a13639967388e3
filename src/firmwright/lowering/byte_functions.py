"""Reads a region as a function of one byte: a line, or the logistic function, and computes it."""

from __future__ import annotations

from math import prod

import numpy as np

from firmwright.ir.byte_layers import ByteFunction
from firmwright.ir.layer import Array, LayerKind
from firmwright.ir.nodes import Call, Function
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes, reads_parameter
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.kernels.real_functions import evaluate
from firmwright.lowering.kernels.tables import real_values, to_storage_array
from firmwright.lowering.pairs import SIGNS, add_in_fixed_point, multiply_in_fixed_point
from firmwright.lowering.tflite_rounding import quantize_by_reciprocal

STEPS = 256
"""The steps of a byte in the range of the logistic function, from 0 to 1."""

FACTORS = {"relax.sigmoid": 1, "relax.tanh": 2}
"""tanh(x) is 2 · logistic(2 x) - 1, so both functions have one form of steps."""


def read_byte_function(function: Function, rounding: str) -> ByteFunction | None:
    """Return the function of one byte, or None for other regions and for ONNX's rounding.

    In ONNX's rounding, a table computes such functions.
    """
    operators = (*SIGNS, "relax.multiply", *FACTORS)
    found = find_quantized_call(function, rounding, 1, operators) if rounding == "tflite" else None
    if found is None:
        return None
    definitions, call, params = found
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
