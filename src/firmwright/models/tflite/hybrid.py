"""Converts layers with int8 weights and float32 activations (dynamic range) to LiteRT's arithmetic.

LiteRT quantizes the activations in each run, according to the range of each sample or row. LiteRT
adds the products in int32, multiplies the sums by both scales, and then adds the bias in float32.
Weights remain int8 in flash. The results of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED are
bit-identical to LiteRT's results, because all float32 operations have LiteRT's order. Sources in
tensorflow/lite/kernels: fully_connected.cc (EvalHybrid), conv.cc (EvalHybrid, EvalHybridPerChannel)
and depthwise_conv.cc (EvalHybridPerChannel).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy.typing as npt
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.data_movement import shape_of
from firmwright.models.tflite.integer_products import add_products, list_operands, reshape

Array = npt.NDArray[Any]

OPTIONS = {
    "BATCH_MATMUL": tflite.BatchMatMulOptions,
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
    "TRANSPOSE_CONV": tflite.TransposeConvOptions,
}


def is_hybrid(converter: Any, op: Any, kind: str) -> bool:
    """Return whether an operator has quantized weights and float32 activations."""
    if kind not in OPTIONS:
        return False
    if kind == "BATCH_MATMUL":
        source, weights = converter.get_input_tensors(op)
    else:
        source, weights, _ = list_operands(converter, op, kind)
    return source.qnn_params is None and weights.qnn_params is not None


def convert_hybrid(converter: Any, op: Any, kind: str) -> relax.Expr:
    """Return the operator's result in float32. Raises UserError if its weights are not int8."""
    if kind == "BATCH_MATMUL":
        return multiply_batches(converter, op)
    source, weights, biases = list_operands(converter, op, kind)
    (target,) = converter.get_output_tensors(op)
    require_bytes(converter, weights)
    options = converter._get_builtin_options(op, OPTIONS[kind])
    scales = weights.qnn_params["scale"].value.numpy().reshape(-1)
    shape = shape_of(converter, source)
    is_dense = kind == "FULLY_CONNECTED"
    count = prod(shape) // shape_of(converter, weights)[1] if is_dense else shape[0]
    # LiteRT has no kernel with a zero point for a CONV_2D whose channels have one scale.
    symmetric = (
        not options.AsymmetricQuantizeInputs()
        if is_dense
        else kind == "CONV_2D" and bool((scales == scales[0]).all())
    )
    data = reshape(converter, converter.get_tensor_expr(source), [count, prod(shape) // count])
    if is_dense:
        stored = converter.get_tensor_value(weights).T.copy()
        result = multiply_rows(converter, data, relax.const(stored), scales, symmetric)
    else:
        quantized, row_scales = quantize_rows(converter, data, symmetric)
        sums = add_products(converter, kind, quantized, (source, weights, target), options)
        counts = relax.op.astype(converter.bb.normalize(sums), "float32")
        factors, row_scales = relax.const(scales), reshape(converter, row_scales, [count, 1, 1, 1])
        if kind == "CONV_2D" and not symmetric:
            result = relax.op.multiply(relax.op.multiply(counts, factors), row_scales)
        else:
            result = relax.op.multiply(counts, relax.op.multiply(row_scales, factors))
    if biases:
        result = relax.op.add(result, converter.get_tensor_expr(biases[0]))
    result = converter.convert_fused_activation_function(
        converter.bb.normalize(result), options.FusedActivationFunction()
    )
    if is_dense:  # the file contains a batch of 1 for a batch of unknown size
        units = shape_of(converter, weights)[0]
        rows = shape[:-1] if options.KeepNumDims() else [count]
        return reshape(converter, result, [*rows, units])
    return result


def multiply_batches(converter: Any, op: Any) -> relax.Expr:
    """Return the result of BATCH_MATMUL in float32; the rows of the left factor are quantized.

    Source: tensorflow/lite/kernels/batch_matmul.cc (EvalHybrid).
    """
    source, weights = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    require_bytes(converter, weights)
    options = converter._get_builtin_options(op, tflite.BatchMatMulOptions)
    scales = weights.qnn_params["scale"].value.numpy().reshape(-1)
    if scales.size > 1:
        raise UserError(
            f"has int8 weights with {scales.size} scales; firmwright supports one scale: quantize "
            "the weights per tensor"
        )
    data, factor = (converter.bb.normalize(converter.get_tensor_expr(t)) for t in (source, weights))
    if options.AdjX():
        data = swap_last_axes(converter, data)
    if options.AdjY():
        factor = swap_last_axes(converter, factor)
    shape = static_shape(data)
    rows = reshape(converter, data, [prod(shape[:-1]), shape[-1]])
    quantized, row_scales = quantize_rows(converter, rows, not options.AsymmetricQuantizeInputs())
    stored = reshape(converter, quantized, [*shape])
    sums = relax.op.matmul(stored, factor, out_dtype="int32")
    counts = relax.op.astype(converter.bb.normalize(sums), "float32")
    factors = relax.op.multiply(row_scales, relax.const(scales))
    factors = reshape(converter, converter.bb.normalize(factors), [*shape[:-1], 1])
    result = converter.bb.normalize(relax.op.multiply(counts, factors))
    return relax.op.reshape(result, shape_of(converter, target))


def swap_last_axes(converter: Any, data: relax.Expr) -> relax.Expr:
    axes = [*range(len(static_shape(data)))]
    swapped = relax.op.permute_dims(data, [*axes[:-2], axes[-1], axes[-2]])
    return converter.bb.normalize(swapped)


def require_bytes(converter: Any, weights: Any) -> None:
    """Raise UserError if weights are not int8, because LiteRT reads uint8 weights as int8."""
    if weights.tensor.Type() != tflite.TensorType.INT8:
        stored = converter.get_tensor_type_str(weights.tensor.Type())
        raise UserError(
            f"has {stored} weights and float32 activations; firmwright supports int8 weights: "
            "convert the model again with int8 weights"
        )


def multiply_rows(
    converter: Any, data: relax.Expr, weights: relax.Expr, scales: Array, symmetric: bool
) -> relax.Expr:
    """Return the float32 product (rows, units) of rows and int8 weights (length, units).

    ``scales`` contains one scale of the weights, or one scale per unit.
    """
    quantized, row_scales = quantize_rows(converter, data, symmetric)
    sums = relax.op.matmul(quantized, weights, out_dtype="int32")
    counts = relax.op.astype(converter.bb.normalize(sums), "float32")
    factors = relax.op.multiply(row_scales, relax.const(scales))
    return converter.bb.normalize(relax.op.multiply(counts, factors))


def quantize_rows(
    converter: Any, data: relax.Expr, symmetric: bool
) -> tuple[relax.Expr, relax.Expr]:
    """Return rows (rows, length) as int16 minus their zero points, and their scales (rows, 1).

    ``templates/network/dynamic_range.h`` contains the C functions.
    """
    data = converter.bb.emit(data)
    ends = [converter.bb.emit(find(data, 1)) for find in (relax.op.min, relax.op.max)]
    flag = tirx.const(int(symmetric), "int32")

    def choose(low: te.Tensor, high: te.Tensor) -> te.Tensor:
        def parameter(row: Any, which: Any) -> Any:
            scale, steps, point = (
                tirx.call_pure_extern("float32", name, low[row], high[row], flag)
                for name in ("row_scale", "row_steps", "row_zero_point")
            )
            return tirx.Select(which == 0, scale, tirx.Select(which == 1, steps, point))

        return te.compute((*low.shape, 3), parameter, "parameters")

    def quantize(data: te.Tensor, chosen: te.Tensor) -> te.Tensor:
        def element(row: Any, at: Any) -> Any:
            given = (data[row, at], chosen[row, 1], chosen[row, 2])
            return tirx.call_pure_extern("int32", "row_quantize", *given).astype("int16")

        return te.compute(data.shape, element, "quantized")

    chosen = converter.bb.emit_te(choose, *ends, primfunc_name_hint="choose_range")
    stored = converter.bb.emit_te(quantize, data, chosen, primfunc_name_hint="quantize")
    scale = relax.op.strided_slice(chosen, axes=[1], begin=[0], end=[1])
    return stored, converter.bb.normalize(scale)
