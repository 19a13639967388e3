"""Quantization in blocks: a scale for each so many elements along an axis, as ONNX 21 has it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer

LIMITS = {
    kind: np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    for kind in (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)
}
"""The integers that a result may be, and their limits."""


def has_blocks(node: onnx.NodeProto, _: Specializer) -> bool:
    return bool(get_attribute(node, "block_size", 0))


def begin(node: onnx.NodeProto, walk: Specializer) -> tuple[NodeBuilder, str]:
    """Return a builder, and the number of each element's block along the axis.

    Raises UserError where the length of the axis is not known: TVM's converters ignore blocks.
    """
    shape = walk.shape(node.input[0])
    if shape is None:
        raise refuse(node, "its input has no known shape")
    body = NodeBuilder(node, walk)
    length = shape[get_attribute(node, "axis", 1)]
    places = np.arange(length) // get_attribute(node, "block_size", 0)
    return body, body.constant(places, "int64")


def refuse(node: onnx.NodeProto, problem: str) -> UserError:
    return UserError(
        f"operator {node.op_type} (node '{node.name}'): it quantizes in blocks, and {problem}"
    )


def spread(body: NodeBuilder, name: str, places: str) -> str:
    """Repeat a scale, or a zero point, for each element of its block."""
    return body.add("Gather", name, places, axis=get_attribute(body.node, "axis", 1))


def rewrite_dequantize(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a DequantizeLinear in blocks: (x - zero point) · scale."""
    body, places = begin(node, walk)
    kind = walk.types[node.input[1]].tensor_type.elem_type
    stored = body.add("Cast", node.input[0], to=kind)
    if len(node.input) > 2 and node.input[2]:
        point = body.add("Cast", node.input[2], to=kind)
        stored = body.add("Sub", stored, spread(body, point, places))
    return body.finish(body.add("Mul", stored, spread(body, node.input[1], places)))


def rewrite_quantize(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a QuantizeLinear in blocks: clamp(round(x / scale) + zero point)."""
    body, places = begin(node, walk)
    point = node.input[2] if len(node.input) > 2 else ""
    kind = get_attribute(node, "output_dtype", 0) or TensorProto.UINT8
    if point:
        kind = walk.types[point].tensor_type.elem_type
    if kind not in LIMITS:
        name = TensorProto.DataType.Name(kind).lower()
        raise refuse(node, f"its results are {name}; firmware computes int8, uint8, int16, uint16")
    result = body.add("Div", node.input[0], spread(body, node.input[1], places))
    result = body.add("Round", result)
    if point:
        zero = body.add("Cast", point, to=TensorProto.FLOAT)
        result = body.add("Add", result, spread(body, zero, places))
    ends = (body.constant(end, "float32") for end in (LIMITS[kind].min, LIMITS[kind].max))
    return body.finish(body.add("Cast", body.add("Clip", result, *ends), to=kind))
