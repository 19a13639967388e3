"""Writes layers as operators of a TFLite file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from firmwright.device import Constant, StoredTensor, constant_array, static_shape
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.layers import Layer

Writer = Callable[[NetworkWriter, Layer, Sequence[int], int], None]
"""A function that adds a layer; the arguments after it are its inputs and its output."""


def write_network(layers: Sequence[Layer], inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
    """Return a TFLite file of layers in order; inputs and outputs are variables of the module."""
    writer = NetworkWriter()
    stored = {tensor.value: tensor for layer in layers for tensor in layer.inputs}
    known = {variable: add_tensor(writer, stored[variable]) for variable in inputs}
    for layer in layers:
        target = add_tensor(writer, layer.chain.result)
        WRITERS[layer.kind](writer, layer, [known[tensor.value] for tensor in layer.inputs], target)
        known[layer.variables[-1]] = target
    return writer.build([known[v] for v in inputs], [known[v] for v in outputs])


def add_tensor(writer: NetworkWriter, stored: StoredTensor) -> int:
    """Add a tensor with one scale."""
    shape = static_shape(stored.value)
    scale, zero = float(stored.scale.item()), int(stored.zero_point.item())
    return writer.tensor(shape, stored.dtype, [scale], zero)


def write_convolution(
    writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int
) -> None:
    """Add a convolution; without a bias it gets a bias of zeros."""
    source, weights, *bias = layer.operands
    attrs = layer.attributes
    assert isinstance(weights.value, Constant)
    values = constant_array(weights.value)
    depthwise = attrs.groups != 1
    outputs = static_shape(layer.chain.result.value)[3]
    # The layouts are HWIO, and HWOI with one input for a depthwise convolution.
    values = (
        values.reshape(1, *values.shape[:2], outputs) if depthwise else values.transpose(3, 0, 1, 2)
    )
    scales = np.broadcast_to(weights.scale.ravel(), outputs).tolist()
    kernel = writer.constant(np.ascontiguousarray(values), scales, 3 if depthwise else 0)
    sums = np.zeros(outputs, np.int32)
    for stored in bias:
        assert isinstance(stored.value, Constant)
        sums = np.broadcast_to(constant_array(stored.value).ravel(), outputs).copy()
    biases = writer.constant(sums, [float(source.scale.item()) * scale for scale in scales])
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
    writer.operator(name, [*sources, kernel, biases], [target], table, **options)


def write_sum(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add a sum of two tensors."""
    options = {"fusedActivationFunction": layer.activation}
    writer.operator("ADD", sources, [target], "AddOptions", **options)


def write_pooling(writer: NetworkWriter, layer: Layer, sources: Sequence[int], target: int) -> None:
    """Add an average of windows."""
    strides = [int(stride) for stride in layer.attributes.strides]
    options = {
        "padding": layer.padding,
        "fusedActivationFunction": layer.activation,
        "strideH": strides[0],
        "strideW": strides[1],
        "filterHeight": layer.window[0],
        "filterWidth": layer.window[1],
    }
    writer.operator("AVERAGE_POOL_2D", sources, [target], "Pool2DOptions", **options)


def write_softmax(writer: NetworkWriter, _: Layer, sources: Sequence[int], target: int) -> None:
    """Add a softmax of the last axis."""
    writer.operator("SOFTMAX", sources, [target], "SoftmaxOptions", beta=1.0)


WRITERS: dict[str, Writer] = {
    "conv2d": write_convolution,
    "add": write_sum,
    "avg_pool2d": write_pooling,
    "softmax": write_softmax,
}
"""The writer of each kind of layer."""
