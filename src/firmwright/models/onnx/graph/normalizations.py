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
from onnx import TensorProto

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.onnx.graph.body import along_axis, copy_node
from firmwright.models.onnx.graph.microsoft import add_bias
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

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


def widen(body: NodeBuilder, data: str) -> tuple[str, np.dtype[Any]]:
    """Return data of the type of the node's data, and their type. 16-bit floats become float32."""
    dtype = body.dtype(0)
    if dtype.name in SIXTEEN_BIT_FLOATS:
        return body.cast(data, "float32"), np.dtype("float32")
    return data, dtype


def narrow(body: NodeBuilder, result: str) -> str:
    dtype = body.dtype(0)
    if dtype.name not in SIXTEEN_BIT_FLOATS:
        return result
    return body.cast(result, dtype)


def rewrite_layer_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite a LayerNormalization that TVM's converter does not support.

    The converter returns placeholders for the moments. The converter supports neither float64 nor
    factors that are broadcast.
    """
    shape = body.shape(0)
    data, scale, bias = body.inputs(3)
    if shape is None:
        return None
    axis = body.attribute("axis", -1) % len(shape)
    whole = all(body.walk.shape(name) == shape[axis:] for name in (scale, bias) if name)
    is_double = body.walk.dtype(data) == np.float64
    if whole and sum(map(bool, body.node.output)) == 1 and not is_double:
        return None
    data, dtype = widen(body, body.input(0))
    moments = add_moments(body, data, range(axis, len(shape)))
    epsilon = body.constant(body.attribute("epsilon", 1e-5), dtype)
    deviation = body.add("Sqrt", body.add("Add", moments.variance, epsilon))
    inverse = body.add("Reciprocal", deviation)
    result = narrow(body, body.add("Mul", moments.centered, inverse))
    result = body.add("Mul", result, scale)
    if bias:
        result = body.add("Add", result, bias)
    stash = body.attribute("stash_type", TensorProto.FLOAT)
    returned = (body.add("Cast", n, to=stash) for n in (moments.mean, inverse))
    return body.finish(result, *returned)


def rewrite_instance_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite an InstanceNormalization in float64 as a GroupNormalization.

    TVM does not support InstanceNormalization in float64.
    """
    shape = body.shape(0)
    if shape is None or body.dtype(0) != np.float64:
        return None
    epsilon = body.attribute("epsilon", 1e-5)
    groups = {"num_groups": shape[1], "epsilon": epsilon}
    return body.finish(body.add("GroupNormalization", *body.node.input, **groups))


def rewrite_group_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite a GroupNormalization, because TVM has no converter."""
    shape = body.shape(0)
    if shape is None:
        return None
    data, dtype = widen(body, body.input(0))
    groups = [shape[0], body.attribute("num_groups", 1), -1]
    grouped = body.reshape(data, groups)
    moments = add_moments(body, grouped, [2])
    epsilon = body.constant(body.attribute("epsilon", 1e-5), dtype)
    deviation = body.add("Sqrt", body.add("Add", moments.variance, epsilon))
    result = body.add("Div", moments.centered, deviation)
    result = body.reshape(result, shape)
    along = body.constant(along_axis(1, len(shape)), "int64")
    scale, bias = (body.add("Reshape", name, along) for name in body.node.input[1:])
    scaled = body.add("Mul", narrow(body, result), scale)
    return body.finish(body.add("Add", scaled, bias))


def rewrite_mean_variance_norm(body: NodeBuilder) -> Nodes:
    """Rewrite MeanVarianceNormalization, because TVM divides by 0 if all elements are equal."""
    data, dtype = widen(body, body.input(0))
    moments = add_moments(body, data, body.attribute("axes", [0, 2, 3]))
    epsilon = body.constant(DEVIATION_EPSILON, dtype)
    deviation = body.add("Add", body.add("Sqrt", moments.variance), epsilon)
    return body.finish(narrow(body, body.add("Div", moments.centered, deviation)))


def rewrite_response_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite an LRN whose type is not float32, because TVM's factors are float32."""
    shape, size = body.shape(0), body.attribute("size", 1)
    if shape is None or body.dtype(0) == np.float32 or size % 2 == 0:
        return None
    data, dtype = widen(body, body.input(0))
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    alpha, beta, bias = (
        body.constant(body.attribute(name, default), dtype) for name, default in defaults.items()
    )
    lines = body.constant([shape[0], 1, shape[1], -1], "int64")
    squares = body.add("Reshape", body.add("Mul", data, data), lines)
    pads = [size // 2, 0, size // 2, 0]
    means = body.add("AveragePool", squares, kernel_shape=[size, 1], pads=pads, count_include_pad=1)
    means = body.reshape(means, shape)
    divisor = body.add("Pow", body.add("Add", body.add("Mul", means, alpha), bias), beta)
    return body.finish(narrow(body, body.add("Div", data, divisor)))


SMALL_EPSILON = 1e-12
"""The default epsilon of com.microsoft's normalizations."""

ONNX_EPSILON = 1e-5
"""The default epsilon of normalizations with names in ONNX's domain."""

NO_TRAINING = "export the model for inference"


def normalize(body: NodeBuilder, data: str, gamma: str, beta: str) -> str:
    """Append a layer normalization along the last axis. ``beta`` may be empty."""
    epsilon = body.attribute("epsilon", SMALL_EPSILON)
    inputs = [data, gamma, *([beta] if beta else [])]
    return body.add("LayerNormalization", *inputs, axis=-1, epsilon=epsilon)


def normalize_simply(
    body: NodeBuilder, data: str, gamma: str, default: float = SMALL_EPSILON
) -> str:
    """Append a division by the root of the mean square, and a multiplication by ``gamma``.

    The mean is over the node's ``axis`` and all later axes. The default is the last axis. 16-bit
    floats are computed in float32.
    """
    wide, precision = widen(body, data)
    mean = body.add("Mul", wide, wide)
    rank = len(body.shape(0) or ())
    for axis in range(body.attribute("axis", -1) % rank, rank):
        mean = body.reduce("ReduceMean", mean, axis)
    epsilon = body.constant(body.attribute("epsilon", default), precision)
    result = body.add("Div", wide, body.add("Sqrt", body.add("Add", mean, epsilon)))
    return body.add("Mul", narrow(body, result), gamma)


def rewrite_batch_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite a BatchNormalization of early opsets with parameters per element (``spatial=0``)."""
    shape = body.shape(0)
    if shape is None or body.attribute("spatial", 1):
        return None
    line = body.constant([-1], "int64")
    data = body.reshape(body.input(0), [shape[0], -1])
    parameters = [body.add("Reshape", name, line) for name in body.node.input[1:]]
    epsilon = body.attribute("epsilon", 1e-5)
    result = body.add("BatchNormalization", data, *parameters, epsilon=epsilon)
    return body.finish(body.reshape(result, shape))


def restore_norm(body: NodeBuilder) -> Nodes:
    """Move a LayerNormalization of an opset before 17 to ONNX's domain."""
    copy = copy_node(body.node)
    copy.domain = ""
    return [copy]


def rewrite_simple_norm(body: NodeBuilder) -> Nodes | None:
    body.refuse_tensors({-2: "inv_std_var"}, NO_TRAINING)
    data, gamma = body.inputs(2)
    if not body.walk.shape(data):
        return None
    return body.finish(normalize_simply(body, data, gamma, ONNX_EPSILON))


def rewrite_skip_norm(body: NodeBuilder) -> Nodes | None:
    """Rewrite a normalization of the sum of an input, a skip connection and a bias."""
    body.refuse_tensors({-2: "mean", -3: "inv_std_var"}, NO_TRAINING)
    is_simple = body.node.op_type == "SkipSimplifiedLayerNormalization"
    data, skip, gamma, beta, bias = body.inputs(5)
    if is_simple:
        beta, bias = "", beta
    if not body.walk.shape(data):
        return None
    total = add_bias(body, body.add("Add", data, skip), bias)
    if is_simple:
        result = normalize_simply(body, total, gamma)
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
