"""Converts CONV_2D and TRANSPOSE_CONV of int16 activations with an int32 bias.

LiteRT adds the products in 32 bits. LiteRT then scales the sums by multipliers of 31 bits, with two
roundings, as in int8. Without an int32 bias, LiteRT scales by multipliers of 15 bits, with one
rounding. Source: tensorflow/lite/kernels/conv.cc (EvalQuantizedPerChannel16x8).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.models.tflite.data_movement import shape_of
from firmwright.models.tflite.integer_products import add_products, list_operands
from firmwright.models.tflite.svdf import find_factor

OPTIONS = {"CONV_2D": tflite.Conv2DOptions, "TRANSPOSE_CONV": tflite.TransposeConvOptions}


def has_narrow_sums(converter: Any, op: Any, kind: str) -> bool:
    """Return whether an operator sums int16 activations in 32 bits."""
    if kind not in OPTIONS:
        return False
    source, *_ = list_operands(converter, op, kind)
    stated = converter._get_builtin_options(op, OPTIONS[kind]).QuantizedBiasType()
    of_int16: bool = source.tensor.Type() == tflite.TensorType.INT16
    return of_int16 and stated == tflite.TensorType.INT32


def convert_narrow_sums(converter: Any, op: Any, kind: str) -> relax.Expr:
    source, weights, biases = list_operands(converter, op, kind)
    (target,) = converter.get_output_tensors(op)
    options = converter._get_builtin_options(op, OPTIONS[kind])
    data = converter.get_tensor_expr(source)
    sums = add_products(converter, kind, data, (source, weights, target), options)
    for bias in biases:
        sums = relax.op.add(converter.bb.normalize(sums), converter.get_tensor_expr(bias))
    scaled = scale_channels(converter, sums, source, weights, target)
    params = [tflite_frontend.get_scalar_from_constant(target.qnn_params[n])
            for n in ("scale", "zero_point")]  # fmt: skip
    return converter.convert_qnn_fused_activation_function(
        expr=scaled, fused_activation_fn=options.FusedActivationFunction(),
        scale=params[0], zero_point=params[1], dtype="int16",
    )  # fmt: skip


def scale_channels(
    converter: Any, sums: relax.Expr, source: Any, weights: Any, target: Any
) -> relax.Expr:
    """Rescale the sums of each channel (last axis) from the product's scale to the result's scale.

    The result is int16.
    """
    given, of_weights, wanted = (
        t.qnn_params["scale"].value.numpy().astype("float64") for t in (source, weights, target)
    )
    channels = int(shape_of(converter, target)[-1])
    factors = [find_factor(f) for f in np.resize(given * of_weights / wanted, channels)]
    tables = [relax.const(np.array(column, "int32")) for column in zip(*factors, strict=True)]

    def compute(data: te.Tensor, *numbers: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            scaled = tirx.call_pure_extern(
                "int32", "fixed_scale_any", data(*at), *(n(at[-1]) for n in numbers)
            )
            ends = [tirx.const(end, "int32") for end in (-32768, 32767)]
            return tirx.max(tirx.min(scaled, ends[1]), ends[0]).astype("int16")

        return te.compute(data.shape, element, "scaled")

    return converter.bb.emit_te(
        compute, converter.bb.emit(sums), *tables, primfunc_name_hint="requantize"
    )
