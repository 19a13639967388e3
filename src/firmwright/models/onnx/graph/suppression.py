"""States the limits of a NonMaxSuppression with a result of fixed length."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import (
    NodeBuilder,
    get_attribute,
    read_inputs,
    refuse,
    refuse_inconsistent,
)
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer

DOMAIN = "firmwright"
"""The domain of a NonMaxSuppression whose results are rows of a fixed length, and their number."""


def rewrite_suppression(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """State the limits and the types of a bounded form, whose results ONNX cannot infer."""
    boxes, scores, limit, overlap, threshold = read_inputs(node, 5)
    if limit and limit not in walk.constants:
        refuse(
            node,
            f"max_output_boxes_per_class ('{limit}') is known only at run time; make it a "
            "constant, or state the value of the model's input in the recipe",
        )
    corners, shape = walk.shape(boxes), walk.shape(scores)
    if shape is None or corners is None:
        refuse(node, "the shape of its boxes is known only at run time; state the input's shape")
    if len(shape) != 3 or corners != (shape[0], shape[2], 4):
        refuse_inconsistent(
            node,
            f"its boxes are {list(corners)} and its scores are {list(shape)}; expected "
            "[batches, boxes, 4] and [batches, classes, boxes]",
        )
    kinds = [str(walk.dtype(name)) for name in (boxes, scores)]
    if kinds != ["float32"] * 2:
        refuse(
            node,
            f"its boxes are {kinds[0]} and its scores are {kinds[1]}; ONNX defines it for float32: "
            "cast both to float32",
        )
    largest = read_number(node, walk, limit) if limit else 0
    if largest < 1:
        refuse(
            node,
            f"max_output_boxes_per_class is {largest}, so it selects no box; state a number of 1 "
            "or more",
        )
    if overlap in walk.constants and not 0 <= read_number(node, walk, overlap) <= 1:
        refuse(
            node,
            f"iou_threshold is {read_number(node, walk, overlap)}; ONNX Runtime accepts 0 to 1",
        )
    most = min(int(largest), shape[2])
    body = NodeBuilder(node, walk)
    given = (name or body.constant([0], "float32") for name in (overlap, threshold))
    centered = get_attribute(node, "center_point_box", 0)
    rows, count = node.output
    for name, sizes in ((rows, (shape[0] * shape[1] * most, 3)), (count, (1,))):
        walk.types[name] = helper.make_tensor_type_proto(TensorProto.INT64, sizes)
    body.nodes.append(
        helper.make_node("BoundedSuppression", [boxes, scores, *given], [rows, count], node.name,
                         most=most, centered=centered, filtered=int(bool(threshold)))
    )  # fmt: skip
    return body.nodes


def read_number(node: onnx.NodeProto, walk: Specializer, name: str) -> float:
    """Return a constant with one element."""
    array = walk.constants[name]
    if array.size != 1:
        shape = list(array.shape)
        refuse_inconsistent(node, f"'{name}' has the shape {shape}; expected one element")
    number: float = array.item()
    return number


SUPPRESSION: dict[str, Rewrite] = {f"{DOMAIN}.NonMaxSuppression": rewrite_suppression}
