"""Quantization in blocks: a scale for each so many elements along an axis, as ONNX 21 has it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer


def spread(body: NodeBuilder, name: str, length: int) -> str:
    """Repeat a scale, or a zero point, for each element of its block along the axis."""
    block = get_attribute(body.node, "block_size", 0)
    places = body.constant(np.arange(length) // block, "int64")
    return body.add("Gather", name, places, axis=get_attribute(body.node, "axis", 1))


def rewrite_dequantize(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a DequantizeLinear in blocks: (x - zero point) · scale."""
    shape = walk.shape(node.input[0])
    if not get_attribute(node, "block_size", 0) or shape is None:
        return None
    body = NodeBuilder(node, walk)
    length = shape[get_attribute(node, "axis", 1)]
    kind = walk.types[node.input[1]].tensor_type.elem_type
    stored = body.add("Cast", node.input[0], to=kind)
    if len(node.input) > 2 and node.input[2]:
        point = body.add("Cast", node.input[2], to=kind)
        stored = body.add("Sub", stored, spread(body, point, length))
    return body.finish(body.add("Mul", stored, spread(body, node.input[1], length)))


def rewrite_quantize(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a QuantizeLinear in blocks: clamp(round(x / scale) + zero point)."""
    shape = walk.shape(node.input[0])
    if not get_attribute(node, "block_size", 0) or shape is None:
        return None
    body = NodeBuilder(node, walk)
    length = shape[get_attribute(node, "axis", 1)]
    point = node.input[2] if len(node.input) > 2 else ""
    kind = get_attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if point:
        kind = walk.types[point].tensor_type.elem_type
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    result = body.add("Div", node.input[0], spread(body, node.input[1], length))
    result = body.add("Round", result)
    if point:
        zero = body.add("Cast", point, to=TensorProto.FLOAT)
        result = body.add("Add", result, spread(body, zero, length))
    ends = (body.constant(end, "float32") for end in (limits.min, limits.max))
    return body.finish(body.add("Cast", body.add("Clip", result, *ends), to=kind))
