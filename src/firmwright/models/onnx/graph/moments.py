"""Rewrites normalizations that TVM does not support or computes imprecisely.

ONNX defines a variance as the mean of squares minus the square of the mean. If data are far from
zero, this difference consists of rounding errors, and may be negative. This module subtracts the
mean first. The variance is then the mean of the squared differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.onnx.graph.body import (
    NodeBuilder,
    along_axis,
    get_attribute,
    read_inputs,
)
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer

DEVIATION_EPSILON = 1e-9
"""The number that MeanVarianceNormalization adds to the deviation before the division."""


class Moments(NamedTuple):
    """The names of tensors: the mean of data, the data minus the mean, and the variance."""

    mean: str
    centered: str
    variance: str


def add_moments(body: NodeBuilder, data: str, axes: range | list[int]) -> Moments:
    mean = body.reduce("ReduceMean", data, *axes)
    centered = body.add("Sub", data, mean)
    variance = body.reduce("ReduceMean", body.add("Mul", centered, centered), *axes)
    return Moments(mean, centered, variance)


def widen(body: NodeBuilder, walk: Specializer) -> tuple[str, np.dtype[Any]]:
    """Return the node's data and their type. 16-bit floats become float32."""
    data = body.node.input[0]
    if walk.dtype(data).name in SIXTEEN_BIT_FLOATS:
        return body.add("Cast", data, to=TensorProto.FLOAT), np.dtype("float32")
    return data, walk.dtype(data)


def narrow(body: NodeBuilder, walk: Specializer, result: str) -> str:
    dtype = walk.dtype(body.node.input[0])
    if dtype.name not in SIXTEEN_BIT_FLOATS:
        return result
    return body.add("Cast", result, to=helper.np_dtype_to_tensor_dtype(dtype))


def rewrite_layer_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a LayerNormalization that TVM's converter does not support.

    The converter returns placeholders for the moments. The converter supports neither float64 nor
    factors that are broadcast.
    """
    shape = walk.shape(node.input[0])
    data, scale, bias = read_inputs(node, 3)
    if shape is None:
        return None
    axis = get_attribute(node, "axis", -1) % len(shape)
    whole = all(walk.shape(name) == shape[axis:] for name in (scale, bias) if name)
    is_double = walk.dtype(data) == np.float64
    if whole and sum(map(bool, node.output)) == 1 and not is_double:
        return None
    body = NodeBuilder(node, walk)
    data, dtype = widen(body, walk)
    moments = add_moments(body, data, range(axis, len(shape)))
    epsilon = body.constant(get_attribute(node, "epsilon", 1e-5), dtype)
    deviation = body.add("Sqrt", body.add("Add", moments.variance, epsilon))
    inverse = body.add("Reciprocal", deviation)
    result = narrow(body, walk, body.add("Mul", moments.centered, inverse))
    result = body.add("Mul", result, scale)
    if bias:
        result = body.add("Add", result, bias)
    stash = get_attribute(node, "stash_type", TensorProto.FLOAT)
    returned = (body.add("Cast", n, to=stash) for n in (moments.mean, inverse))
    return body.finish(result, *returned)


def rewrite_instance_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite an InstanceNormalization in float64 as a GroupNormalization.

    TVM does not support InstanceNormalization in float64.
    """
    shape = walk.shape(node.input[0])
    if shape is None or walk.dtype(node.input[0]) != np.float64:
        return None
    body = NodeBuilder(node, walk)
    epsilon = get_attribute(node, "epsilon", 1e-5)
    groups = {"num_groups": shape[1], "epsilon": epsilon}
    return body.finish(body.add("GroupNormalization", *node.input, **groups))


def rewrite_group_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a GroupNormalization, because TVM has no converter."""
    shape = walk.shape(node.input[0])
    if shape is None:
        return None
    body = NodeBuilder(node, walk)
    data, dtype = widen(body, walk)
    groups = [shape[0], get_attribute(node, "num_groups", 1), -1]
    grouped = body.add("Reshape", data, body.constant(groups, "int64"))
    moments = add_moments(body, grouped, [2])
    epsilon = body.constant(get_attribute(node, "epsilon", 1e-5), dtype)
    deviation = body.add("Sqrt", body.add("Add", moments.variance, epsilon))
    result = body.add("Div", moments.centered, deviation)
    result = body.add("Reshape", result, body.constant(shape, "int64"))
    along = body.constant(along_axis(1, len(shape)), "int64")
    scale, bias = (body.add("Reshape", name, along) for name in node.input[1:])
    scaled = body.add("Mul", narrow(body, walk, result), scale)
    return body.finish(body.add("Add", scaled, bias))


def rewrite_mean_variance_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite MeanVarianceNormalization, because TVM divides by 0 if all elements are equal."""
    body = NodeBuilder(node, walk)
    data, dtype = widen(body, walk)
    moments = add_moments(body, data, get_attribute(node, "axes", [0, 2, 3]))
    epsilon = body.constant(DEVIATION_EPSILON, dtype)
    deviation = body.add("Add", body.add("Sqrt", moments.variance), epsilon)
    return body.finish(narrow(body, walk, body.add("Div", moments.centered, deviation)))


def rewrite_response_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite an LRN whose type is not float32, because TVM's factors are float32."""
    shape, size = walk.shape(node.input[0]), get_attribute(node, "size", 1)
    if shape is None or walk.dtype(node.input[0]) == np.float32 or size % 2 == 0:
        return None
    body = NodeBuilder(node, walk)
    data, dtype = widen(body, walk)
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    alpha, beta, bias = (
        body.constant(get_attribute(node, name, default), dtype)
        for name, default in defaults.items()
    )
    lines = body.constant([shape[0], 1, shape[1], -1], "int64")
    squares = body.add("Reshape", body.add("Mul", data, data), lines)
    pads = [size // 2, 0, size // 2, 0]
    means = body.add("AveragePool", squares, kernel_shape=[size, 1], pads=pads, count_include_pad=1)
    means = body.add("Reshape", means, body.constant(shape, "int64"))
    divisor = body.add("Pow", body.add("Add", body.add("Mul", means, alpha), bias), beta)
    return body.finish(narrow(body, walk, body.add("Div", data, divisor)))


MOMENTS: dict[str, Rewrite] = {
    "GroupNormalization": rewrite_group_norm,
    "InstanceNormalization": rewrite_instance_norm,
    "LRN": rewrite_response_norm,
    "LayerNormalization": rewrite_layer_norm,
    "MeanVarianceNormalization": rewrite_mean_variance_norm,
}
