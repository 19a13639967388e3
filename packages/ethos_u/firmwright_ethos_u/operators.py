"""Writes layers as operators of a TFLite file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from firmwright.device import Constant, StoredTensor, constant_array, static_shape
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.integer_operators import INTEGER_WRITERS
from firmwright_ethos_u.layers import Layer
from firmwright_ethos_u.memory import Array

Writer = Callable[[NetworkWriter, Layer, Sequence[int], int], None]
"""Adds a layer to the network. The last arguments are the inputs and the output of the layer."""


def write_network(layers: Sequence[Layer], inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
    """Return a TFLite file of layers in order. Inputs and outputs are variables of the module."""
    writer = NetworkWriter()
    stored = {tensor.value: tensor for layer in layers for tensor in layer.inputs}
    known = {variable: add_tensor(writer, stored[variable]) for variable in inputs}
    for layer in layers:
        sources = [
            add_constant(writer, tensor) if tensor.is_constant else known[tensor.value]
            for tensor in layer.inputs
        ]
        target = add_tensor(writer, layer.result)
        writers = WRITERS if layer.arithmetic else INTEGER_WRITERS
        writers[layer.kind](writer, layer, sources, target)
        known[layer.variables[-1]] = target
    return writer.build([known[v] for v in inputs], [known[v] for v in outputs])


def add_tensor(writer: NetworkWriter, stored: StoredTensor) -> int:
    """Add a tensor with one scale."""
    shape = static_shape(stored.value)
    scale, zero = float(stored.scale.item()), int(stored.zero_point.item())
    return writer.tensor(shape, stored.dtype, [scale], zero)


def add_constant(writer: NetworkWriter, stored: StoredTensor) -> int:
    """Add a constant with one scale."""
    scale, zero = float(stored.scale.item()), int(stored.zero_point.item())
    return writer.constant(read_constant(stored), [scale], zero_point=zero)


def read_constant(stored: StoredTensor) -> Array:
    assert isinstance(stored.value, Constant)
    return constant_array(stored.value)


def write_weights(
    writer: NetworkWriter, layer: Layer, values: Array, axis: int, outputs: int
) -> list[int]:
    """Add weights with a scale per output, and a bias, which may be zeros. Return their indices."""
    source, weights, *biases = layer.operands
    scales = np.broadcast_to(weights.scale.ravel(), outputs).tolist()
    kernel = writer.constant(np.ascontiguousarray(values), scales, axis)
    bias = np.zeros(outputs, "int32" if source.dtype == "int8" else "int64")
    for stored in biases:
        bias = np.broadcast_to(read_constant(stored).ravel(), outputs).astype(bias.dtype)
    return [
        kernel,
        writer.constant(bias, [float(source.scale.item()) * scale for scale in scales]),
    ]


def write_convolution(
    writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int
) -> None:
    source, weights = layer.operands[:2]
    attrs, values = layer.attributes, read_constant(weights)
    depthwise = attrs.groups != 1
    outputs = static_shape(layer.result.value)[3]
    # The layout is HWIO. For a depthwise convolution, it is HWOI with one input.
    values = (
        values.reshape(1, *values.shape[:2], outputs) if depthwise else values.transpose(3, 0, 1, 2)
    )
    options: dict[str, int] = {
        "padding": layer.padding,
        "fusedActivationFunction": layer.activation,
        "strideH": int(attrs.strides[0]),
        "strideW": int(attrs.strides[1]),
        "dilationHFactor": int(attrs.dilation[0]),
        "dilationWFactor": int(attrs.dilation[1]),
    }
    name, table = "CONV_2D", "Conv2DOptions"
    if depthwise:
        name, table = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        options["depthMultiplier"] = outputs // prod(static_shape(source.value)[3:])
    constants = write_weights(writer, layer, values, 3 if depthwise else 0, outputs)
    writer.operator(name, [*sources, *constants], [target], table, **options)


def write_dense(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add a dense layer. TFLite's weights are transposed."""
    values = read_constant(layer.operands[1]).T
    constants = write_weights(writer, layer, values, 0, len(values))
    writer.operator(
        "FULLY_CONNECTED",
        [*sources, *constants],
        [target],
        "FullyConnectedOptions",
        fusedActivationFunction=layer.activation,
        keepNumDims=len(static_shape(layer.result.value)) > 2,
    )


def write_binary(kind: str) -> Writer:
    """Return the writer of an operator with two operands."""

    def write(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
        options = {"fusedActivationFunction": layer.activation}
        writer.operator(kind, sources, [target], f"{kind.title()}Options", **options)

    return write


def write_unary(kind: str, table: str = "", **options: float) -> Writer:
    """Return the writer of an operator with one operand."""

    def write(writer: NetworkWriter, _: Layer, sources: Sequence[int], target: int) -> None:
        writer.operator(kind, sources, [target], table, **options)

    return write


def write_limits(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add an activation that limits real values."""
    low, high = (float(bound.value) for bound in layer.call.args[1:])
    writer.operator(LIMITS[low, high], sources, [target])


def write_pooling(kind: str) -> Writer:
    def write(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
        strides = [int(stride) for stride in layer.attributes.strides]
        options = {
            "padding": layer.padding,
            "fusedActivationFunction": layer.activation,
            "strideH": strides[0],
            "strideW": strides[1],
            "filterHeight": layer.window[0],
            "filterWidth": layer.window[1],
        }
        writer.operator(kind, sources, [target], "Pool2DOptions", **options)

    return write


def write_mean(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    axes = writer.constant(np.array([int(axis) for axis in layer.attributes.axis], np.int32))
    keep = bool(layer.attributes.keepdims)
    writer.operator("MEAN", [*sources, axes], [target], "ReducerOptions", keepDims=keep)


def write_leaky(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    alpha = float(layer.attributes.alpha)
    writer.operator("LEAKY_RELU", sources, [target], "LeakyReluOptions", alpha=alpha)


def write_resize(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    size = writer.constant(np.array(static_shape(layer.result.value)[1:3], np.int32))
    mode = layer.attributes.coordinate_transformation_mode
    options = {"alignCorners": mode == "align_corners", "halfPixelCenters": mode == "half_pixel"}
    writer.operator(
        "RESIZE_BILINEAR", [*sources, size], [target], "ResizeBilinearOptions", **options
    )


LIMITS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}
"""Maps bounds to activations that limit real values."""

WRITERS: dict[str, Writer] = {
    "conv2d": write_convolution,
    "matmul": write_dense,
    "add": write_binary("ADD"),
    "subtract": write_binary("SUB"),
    "multiply": write_binary("MUL"),
    "avg_pool2d": write_pooling("AVERAGE_POOL_2D"),
    "mean": write_mean,
    "softmax": write_unary("SOFTMAX", "SoftmaxOptions", beta=1.0),
    "sigmoid": write_unary("LOGISTIC"),
    "tanh": write_unary("TANH"),
    "relu": write_unary("RELU"),
    "clip": write_limits,
    "abs": write_unary("ABS"),
    "leakyrelu": write_leaky,
    "image.resize2d": write_resize,
    "quantize": write_unary("QUANTIZE"),
    "divide": write_unary("HARD_SWISH"),
}
"""Maps kinds of layers on dequantized values to writers."""
