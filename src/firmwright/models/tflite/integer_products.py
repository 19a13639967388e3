"""Computes with stored integers and int8 weights in int32, like LiteRT.

The weights keep their type, so that flash contains bytes. CONV_2D and TRANSPOSE_CONV of int16
activations with an int32 bias add the products in 32 bits. LiteRT then scales the sums by
multipliers of 31 bits, with two roundings, as in int8. Without an int32 bias, LiteRT scales by
multipliers of 15 bits, with one rounding. Source: tensorflow/lite/kernels/conv.cc
(EvalQuantizedPerChannel16x8).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.ir.relax import static_shape
from firmwright.models.tflite.data_movement import shape_of


def list_operands(converter: Any, op: Any, kind: str) -> tuple[Any, Any, list[Any]]:
    """Return the activations, the weights, and a list with the bias, if any."""
    first, weights, *rest = converter.get_input_tensors(op)
    source, biases = (rest[0], rest[1:]) if kind == "TRANSPOSE_CONV" else (first, rest)
    return source, weights, [bias for bias in biases if bias.tensor_idx >= 0]


def add_products(
    converter: Any, kind: str, data: relax.Expr, tensors: tuple[Any, Any, Any], options: Any
) -> relax.Expr:
    """Return the int32 sums of a convolution of the given kind. ``data`` are integers in NHWC.

    The ``tensors`` are the activations, the weights and the result.
    """
    source, weights, target = tensors
    stored = converter.get_tensor_value(weights)
    if kind == "DEPTHWISE_CONV_2D":
        stored = stored.transpose(3, 1, 2, 0).copy()
    picture = reshape(converter, data, shape_of(converter, source))
    if kind == "TRANSPOSE_CONV":
        shape = shape_of(converter, target)
        return transpose_convolve(converter, picture, relax.const(stored), options, shape)
    return convolve(picture, relax.const(stored), options)


def convolve(data: relax.Expr, kernel: relax.Expr, options: Any) -> relax.Expr:
    """Return the int32 convolution of integers in NHWC and weights in OHWI."""
    (_, *lengths, channels), (_, *window, taken) = static_shape(data), static_shape(kernel)
    strides = [options.StrideH(), options.StrideW()]
    dilation = [options.DilationHFactor(), options.DilationWFactor()]
    before, after = [0, 0], [0, 0]
    if options.Padding() == tflite.Padding.SAME:
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
        pads = map(tflite_frontend.get_pad_value, lengths, reach, strides)
        before, after = (list(p) for p in zip(*pads, strict=True))
    return relax.op.nn.conv2d(
        data, kernel, strides=strides, padding=[*before, *after], dilation=dilation,
        groups=channels // taken, data_layout="NHWC", kernel_layout="OHWI", out_dtype="int32",
    )  # fmt: skip


def pad_transposed(
    options: Any, shape: list[int], lengths: list[int], window: list[int]
) -> dict[str, list[int]]:
    """Return strides and paddings of a transposed convolution for Relax's operators.

    ``shape`` is the shape (N, H, W, C) or (N, D, H, W, C) of the result in the file. ``lengths``
    are the lengths of the input along D, H and W, and ``window`` contains the lengths of the
    kernel.
    """
    strides = [options.StrideH(), options.StrideW()]
    if len(lengths) == 3:
        strides.insert(0, options.StrideD())
    before = [0] * len(lengths)
    if options.Padding() == tflite.Padding.SAME:
        pads = map(tflite_frontend.get_pad_value, shape[1:-1], window, strides)
        before = [first for first, _ in pads]
    reach = [(n - 1) * s + w for n, s, w in zip(lengths, strides, window, strict=True)]
    after = [r - b - n for r, b, n in zip(reach, before, shape[1:-1], strict=True)]
    return {
        "strides": strides,
        "padding": [*before, *(max(a, 0) for a in after)],
        "output_padding": [max(-a, 0) for a in after],
    }


def transpose_convolve(
    converter: Any, data: relax.Expr, kernel: relax.Expr, options: Any, shape: list[int]
) -> relax.Expr:
    """Return the int32 transposed convolution of integers in NHWC.

    ``shape`` is the result's shape.
    """
    lengths, window = (list(static_shape(e))[1:3] for e in (data, kernel))
    result = relax.op.nn.conv2d_transpose(
        converter.bb.normalize(relax.op.permute_dims(data, [0, 3, 1, 2])),
        converter.bb.normalize(relax.op.permute_dims(kernel, [3, 0, 1, 2])),
        out_dtype="int32", **pad_transposed(options, shape, lengths, window),
    )  # fmt: skip
    return relax.op.permute_dims(converter.bb.normalize(result), [0, 2, 3, 1])


def reshape(converter: Any, value: relax.Expr, shape: list[int]) -> relax.Expr:
    value = converter.bb.normalize(value)
    if list(static_shape(value)) == shape:
        return value
    return converter.bb.normalize(relax.op.reshape(value, shape))


def requantize(
    converter: Any, values: relax.Expr, factor: np.floating[Any], zero_point: int, dtype: str
) -> relax.Expr:
    """Return int32 ``values`` times ``factor`` plus the zero point, clipped to ``dtype``."""
    ends = np.iinfo(dtype)
    low, high = (tirx.const(int(end) - zero_point, "int32") for end in (ends.min, ends.max))

    def scale(value: Any) -> Any:
        clipped = tirx.max(tirx.min(scale_fixed(value, factor), high), low)
        return (clipped + zero_point).astype(dtype)

    def compute(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *at: scale(data[at]), "scaled")

    given = converter.bb.emit(values)
    return converter.bb.emit_te(compute, given, primfunc_name_hint="requantize")


def scale_fixed(value: Any, factor: np.floating[Any]) -> Any:
    """Return an int32 expression times ``factor``, rounded twice as in LiteRT.

    The product with a multiplier of 31 bits is rounded with ties up. The right shift is rounded
    with ties away from zero (``templates/network/fixed_point.h``).
    """
    numbers = (tirx.const(number, "int32") for number in find_factor(factor))
    return tirx.call_pure_extern("int32", "fixed_scale_any", value, *numbers)


def find_factor(factor: np.floating[Any]) -> tuple[int, int, int]:
    """Return a factor as a multiplier of 31 bits, a left shift and a right shift."""
    mantissa, exponent = np.frexp(np.float64(factor))
    multiplier = int(np.floor(mantissa * 2**31 + 0.5))
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return multiplier, max(int(exponent), 0), max(-int(exponent), 0)


def read_scale(tensor: Any) -> np.float32:
    return np.float32(tensor.qnn_params["scale"].value.numpy())


def read_zero_point(tensor: Any) -> int:
    return int(tensor.qnn_params["zero_point"].value.numpy())


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
