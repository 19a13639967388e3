"""Rewrites quantization in blocks: one scale per block of elements along an axis, since ONNX 21."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.ir.small_types import find_limits, is_small_float
from firmwright.ir.tensors import STORED_AS
from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute, refuse
from firmwright.models.onnx.graph.specialize import Nodes, Specializer


def has_blocks(node: onnx.NodeProto, _: Specializer) -> bool:
    return bool(get_attribute(node, "block_size", 0))


def begin(node: onnx.NodeProto, walk: Specializer) -> tuple[NodeBuilder, str]:
    """Return a builder, and the number of each element's block along the axis.

    Raises UserError if the length of the axis is unknown, because TVM's converters ignore blocks.
    """
    shape = walk.shape(node.input[0])
    if shape is None:
        refuse(
            node,
            "it quantizes in blocks, and its input has no known shape; infer the shapes before the "
            "export",
        )
    body = NodeBuilder(node, walk)
    length = shape[get_attribute(node, "axis", 1)]
    places = np.arange(length) // get_attribute(node, "block_size", 0)
    return body, body.constant(places, "int64")


def spread(body: NodeBuilder, name: str, places: str) -> str:
    """Append a scale or a zero point, repeated per element of its block."""
    return body.add("Gather", name, places, axis=get_attribute(body.node, "axis", 1))


def rewrite_dequantize(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a DequantizeLinear in blocks: (x - zero point) · scale."""
    body, places = begin(node, walk)
    kind, scale = widen_scale(body, walk)
    stored = body.add("Cast", node.input[0], to=kind)
    if len(node.input) > 2 and node.input[2]:
        point = body.add("Cast", node.input[2], to=kind)
        stored = body.add("Sub", stored, spread(body, point, places))
    result = body.add("Mul", stored, spread(body, scale, places))
    to = get_attribute(node, "output_dtype", 0) or kind
    return body.finish(result if to == kind else body.add("Cast", result, to=to))


def widen_scale(body: NodeBuilder, walk: Specializer) -> tuple[int, str]:
    """Return the type in which the node computes, the scale's type, and the scale.

    Scales of small types become float32.
    """
    scale = body.node.input[1]
    if walk.dtype(scale).name in STORED_AS:
        return TensorProto.FLOAT, body.add("Cast", scale, to=TensorProto.FLOAT)
    return walk.types[scale].tensor_type.elem_type, scale


def rewrite_quantize(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a QuantizeLinear in blocks: clamp(round(x / scale) + zero point).

    A cast rounds floats of 8 and 4 bits, and clamps them if the node demands it.
    """
    body, places = begin(node, walk)
    point = node.input[2] if len(node.input) > 2 else ""
    kind = get_attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if point:
        kind = walk.types[point].tensor_type.elem_type
    result_type = helper.tensor_dtype_to_np_dtype(kind).name
    to_float = is_small_float(result_type)
    precision, scale = widen_scale(body, walk)
    data = body.add("Cast", node.input[0], to=precision)
    result = body.add("Div", data, spread(body, scale, places))
    if not to_float:
        result = body.add("Round", result)
    if point:
        zero = body.add("Cast", point, to=TensorProto.FLOAT)
        result = body.add("Cast", result, to=TensorProto.FLOAT)
        result = body.add("Add", result, spread(body, zero, places))
    if to_float:
        saturate = get_attribute(node, "saturate", 1)
        return body.finish(body.add("Cast", result, to=kind, saturate=saturate))
    limits = find_limits(result_type)
    ends = (body.constant(end, "float32") for end in (limits.min, limits.max))
    return body.finish(body.add("Cast", body.add("Clip", result, *ends), to=kind))
