"""Rewrites normalizations that TVM does not support or computes imprecisely.

ONNX defines a variance as the mean of squares minus the square of the mean. If data are far from
zero, this difference consists of rounding errors, and may be negative. This module subtracts the
mean first. The variance is then the mean of the squared differences.

ONNX Runtime has two of com.microsoft's layer normalizations in ONNX's domain. ``onnx/domains.py``
changes the domain of these operators.
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
    copy_node,
    get_attribute,
    read_inputs,
    refuse_tensors,
)
from firmwright.models.onnx.graph.microsoft import add_bias
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


def widen(body: NodeBuilder, walk: Specializer, data: str) -> tuple[str, np.dtype[Any]]:
    """Return data of the type of the node's data, and their type. 16-bit floats become float32."""
    dtype = walk.dtype(body.node.input[0])
    if dtype.name in SIXTEEN_BIT_FLOATS:
        return body.add("Cast", data, to=TensorProto.FLOAT), np.dtype("float32")
    return data, dtype


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
    data, dtype = widen(body, walk, node.input[0])
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
    data, dtype = widen(body, walk, node.input[0])
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
    data, dtype = widen(body, walk, node.input[0])
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
    data, dtype = widen(body, walk, node.input[0])
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


SMALL_EPSILON = 1e-12
"""The default epsilon of com.microsoft's normalizations."""

ONNX_EPSILON = 1e-5
"""The default epsilon of normalizations with names in ONNX's domain."""

NO_TRAINING = "export the model for inference"


def normalize(body: NodeBuilder, data: str, gamma: str, beta: str) -> str:
    """Append a layer normalization along the last axis. ``beta`` may be empty."""
    epsilon = get_attribute(body.node, "epsilon", SMALL_EPSILON)
    inputs = [data, gamma, *([beta] if beta else [])]
    return body.add("LayerNormalization", *inputs, axis=-1, epsilon=epsilon)


def normalize_simply(
    body: NodeBuilder, walk: Specializer, data: str, gamma: str, default: float = SMALL_EPSILON
) -> str:
    """Append a division by the root of the mean square, and a multiplication by ``gamma``.

    The mean is over the node's ``axis`` and all later axes. The default is the last axis. 16-bit
    floats are computed in float32.
    """
    wide, precision = widen(body, walk, data)
    mean = body.add("Mul", wide, wide)
    rank = len(walk.shape(body.node.input[0]) or ())
    for axis in range(get_attribute(body.node, "axis", -1) % rank, rank):
        mean = body.reduce("ReduceMean", mean, axis)
    epsilon = body.constant(get_attribute(body.node, "epsilon", default), precision)
    result = body.add("Div", wide, body.add("Sqrt", body.add("Add", mean, epsilon)))
    return body.add("Mul", narrow(body, walk, result), gamma)


def rewrite_batch_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a BatchNormalization of early opsets with parameters per element (``spatial=0``)."""
    shape = walk.shape(node.input[0])
    if shape is None or get_attribute(node, "spatial", 1):
        return None
    body = NodeBuilder(node, walk)
    line = body.constant([-1], "int64")
    data = body.add("Reshape", node.input[0], body.constant([shape[0], -1], "int64"))
    parameters = [body.add("Reshape", name, line) for name in node.input[1:]]
    epsilon = get_attribute(node, "epsilon", 1e-5)
    result = body.add("BatchNormalization", data, *parameters, epsilon=epsilon)
    return body.finish(body.add("Reshape", result, body.constant(shape, "int64")))


def restore_norm(node: onnx.NodeProto, _: Specializer) -> Nodes:
    """Move a LayerNormalization of an opset before 17 to ONNX's domain."""
    copy = copy_node(node)
    copy.domain = ""
    return [copy]


def rewrite_simple_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    refuse_tensors(node, {-2: "inv_std_var"}, NO_TRAINING)
    data, gamma = read_inputs(node, 2)
    if not walk.shape(data):
        return None
    body = NodeBuilder(node, walk)
    return body.finish(normalize_simply(body, walk, data, gamma, ONNX_EPSILON))


def rewrite_skip_norm(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a normalization of the sum of an input, a skip connection and a bias."""
    refuse_tensors(node, {-2: "mean", -3: "inv_std_var"}, NO_TRAINING)
    body = NodeBuilder(node, walk)
    is_simple = node.op_type == "SkipSimplifiedLayerNormalization"
    data, skip, gamma, beta, bias = read_inputs(node, 5)
    if is_simple:
        beta, bias = "", beta
    if not walk.shape(data):
        return None
    total = add_bias(body, body.add("Add", data, skip), bias)
    if is_simple:
        result = normalize_simply(body, walk, total, gamma)
    else:
        result = normalize(body, total, gamma, beta)
    return body.finish(result, "", "", total)


NORMALIZATIONS: dict[str, Rewrite] = {
    "com.microsoft.LayerNormalization": restore_norm,
    "com.microsoft.SimplifiedLayerNormalization": rewrite_simple_norm,
    "com.microsoft.SkipLayerNormalization": rewrite_skip_norm,
    "com.microsoft.SkipSimplifiedLayerNormalization": rewrite_skip_norm,
}
MOMENTS: dict[str, Rewrite] = {
    "GroupNormalization": rewrite_group_norm,
    "InstanceNormalization": rewrite_instance_norm,
    "LRN": rewrite_response_norm,
    "LayerNormalization": rewrite_layer_norm,
    "MeanVarianceNormalization": rewrite_mean_variance_norm,
}
