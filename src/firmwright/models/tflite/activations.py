"""Converts activation functions of TFLite, whose conversions in TVM are wrong or incomplete.

The first sentence of each docstring describes TVM's error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.models.tflite import data_movement
from firmwright.models.tflite.integer_products import read_scale, read_zero_point

Array = npt.NDArray[Any]


def read_float(converter: Any, tensor: Any) -> relax.Expr:
    data = converter.get_tensor_expr(tensor)
    return data if tensor.qnn_params is None else converter.dequantize(data, tensor)


def quantize_like(converter: Any, value: relax.Expr, target: Any) -> relax.Expr:
    return value if target.qnn_params is None else converter.quantize(value, target)


def convert_exp(converter: Any, op: Any) -> relax.Expr:
    """Convert EXP.

    Raises UserError if results exceed float32, because LiteRT's results are undefined.
    """
    (source,) = converter.get_input_tensors(op)
    if source.tensor.Type() == tflite.TensorType.INT16 and source.qnn_params is not None:
        largest = float(source.qnn_params["scale"].value.numpy().max()) * np.iinfo("int16").max
        if largest > np.log(np.finfo("float32").max):
            raise UserError(
                f"has int16 inputs up to {largest:.4g}, whose exponential exceeds float32: "
                "quantize them with a scale below 0.0027"
            )
    return converter._convert_unary_elemwise(op, relax_op=relax.op.exp)


def convert_elu(converter: Any, op: Any) -> relax.Expr:
    """Convert ELU, because TVM subtracts from stored integers, and computes exp(x) - 1.

    LiteRT computes int8 by a table of float32 results. Source:
    tensorflow/lite/kernels/activations.cc.
    """
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.bb.emit(converter.get_tensor_expr(source))
    if source.qnn_params is not None:
        return look_up(data, source, target, expand_exponential)

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            less = tirx.call_pure_extern("float32", "expm1f", data(*at))
            return tirx.if_then_else(data(*at) < 0, less, data(*at))

        return te.compute(data.shape, element, "elu")

    return converter.bb.emit_te(compute, data, primfunc_name_hint="elu")


def expand_exponential(x: Array) -> Array:
    """Return ELU of float32 numbers."""
    return np.where(x < 0, np.expm1(x), x)


def look_up(
    data: relax.Expr, source: Any, target: Any, function: Callable[[Array], Array]
) -> relax.Expr:
    """Return the results of int8 data from a table of 256 float32 results, as LiteRT rounds them.

    Source: tensorflow/lite/kernels/internal/common.h, LUTPopulate.
    """
    steps = np.arange(-128, 128) - read_zero_point(source)
    real = function((read_scale(source) * steps.astype("float32")).astype("float32"))
    scaled = real.astype("float32") * (np.float32(1) / read_scale(target))
    whole = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)) + read_zero_point(target)
    table = relax.const(np.clip(whole, -128, 127).astype("int8"))
    positions = relax.op.add(relax.op.astype(data, "int32"), relax.const(128, "int32"))
    return relax.op.take(table, positions, axis=0, mode="fast")


def convert_gelu(converter: Any, op: Any) -> relax.Expr:
    """Convert GELU, because TVM writes constants in the result's integer type."""
    (source,) = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    options = converter._get_builtin_options(op, tflite.GeluOptions)
    gelu = relax.op.nn.gelu_tanh if options.Approximate() else relax.op.nn.gelu
    return quantize_like(converter, gelu(read_float(converter, source)), target)


def convert_softmax(converter: Any, op: Any) -> relax.Expr:
    """Convert SOFTMAX, because TVM omits beta, the factor of the logits."""
    (source,) = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    beta = np.float32(converter._get_builtin_options(op, tflite.SoftmaxOptions).Beta())
    data = converter.get_tensor_expr(source)
    if source.qnn_params is None:
        scaled = data if beta == 1 else relax.op.multiply(data, relax.const(float(beta), "float32"))
        return relax.op.nn.softmax(scaled)
    scale = source.qnn_params["scale"].value.numpy() * beta
    params = relax.const(scale, "float32"), source.qnn_params["zero_point"]
    logits = relax.op.dequantize(data, *params, 0)
    return converter.quantize(relax.op.nn.softmax(logits), target)


def convert_prelu(converter: Any, op: Any) -> relax.Expr:
    """Convert PRELU, because TVM reads stored integers as real numbers and broadcasts the slopes.

    Slopes along several axes are repeated to the shape of the last axes of the data, and flattened
    to one axis.
    """
    source, slopes = converter.get_input_tensors(op)
    data, alpha = (converter.get_tensor_expr(t) for t in (source, slopes))
    shape, lengths = (data_movement.shape_of(converter, t) for t in (source, slopes))
    while lengths and lengths[0] == 1:
        lengths = lengths[1:]
    if lengths not in ([], shape[len(shape) - len(lengths) :]):
        alpha = relax.op.reshape(alpha, lengths)
        lengths = shape[len(shape) - len(lengths) :]
        alpha = relax.op.broadcast_to(alpha, lengths)
    channels = prod(lengths)
    rows = [*shape[: len(shape) - len(lengths)], channels] if lengths else shape
    data = relax.op.reshape(data, rows) if rows != shape else data
    if slopes.tensor.Type() == tflite.TensorType.INT16:
        raise UserError(
            "has int16 slopes, which LiteRT, the reference, reads as int8: quantize them as int8"
        )
    if source.qnn_params is not None:
        data, alpha = converter.dequantize(data, source), converter.dequantize(alpha, slopes)
    alpha = relax.op.reshape(alpha, [channels])
    if channels == 1:
        alpha = relax.op.broadcast_to(alpha, [rows[-1]])
    result = relax.op.nn.prelu(converter.bb.normalize(data), alpha, axis=len(rows) - 1)
    result = quantize_like(converter, result, *converter.get_output_tensors(op))
    return relax.op.reshape(result, shape) if rows != shape else result
