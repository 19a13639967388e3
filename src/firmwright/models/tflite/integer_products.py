"""Adds products of stored integers and int8 weights in int32.

The weights keep their type, so that flash contains bytes.
"""

from __future__ import annotations

from typing import Any

import tflite
from tvm import relax
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
