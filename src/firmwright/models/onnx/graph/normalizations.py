"""Rewrites batch normalizations per element, and com.microsoft's fused layer normalizations.

ONNX Runtime has two of the layer normalizations in ONNX's domain. ``onnx/domains.py`` changes the
domain of these operators.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.onnx.graph.body import (
    NodeBuilder,
    get_attribute,
    read_inputs,
    refuse_tensors,
)
from firmwright.models.onnx.graph.microsoft import add_bias
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer

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
    kind = walk.dtype(body.node.input[0])
    is_small = kind.name in SIXTEEN_BIT_FLOATS
    precision = np.dtype("float32") if is_small else kind
    wide = body.add("Cast", data, to=TensorProto.FLOAT) if is_small else data
    mean = body.add("Mul", wide, wide)
    rank = len(walk.shape(body.node.input[0]) or ())
    for axis in range(get_attribute(body.node, "axis", -1) % rank, rank):
        mean = body.reduce("ReduceMean", mean, axis)
    epsilon = body.constant(get_attribute(body.node, "epsilon", default), precision)
    result = body.add("Div", wide, body.add("Sqrt", body.add("Add", mean, epsilon)))
    if is_small:
        result = body.add("Cast", result, to=helper.np_dtype_to_tensor_dtype(kind))
    return body.add("Mul", result, gamma)


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
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
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
