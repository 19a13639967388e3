"""States the limits of a NonMaxSuppression with a result of fixed length."""

from __future__ import annotations

from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import NodeBuilder, Nodes, Rewrite

DOMAIN = "firmwright"
"""The domain of a NonMaxSuppression whose results are rows of a fixed length, and their number."""


def rewrite_suppression(body: NodeBuilder) -> Nodes:
    """State the limits and the types of a bounded form, whose results ONNX cannot infer."""
    boxes, scores, limit, overlap, threshold = body.inputs(5)
    if limit and limit not in body.walk.constants:
        body.refuse(
            f"max_output_boxes_per_class ('{limit}') is known only at run time; make it a "
            "constant, or state the value of the model's input in the recipe"
        )
    corners, shape = body.walk.shape(boxes), body.walk.shape(scores)
    if shape is None or corners is None:
        body.refuse("the shape of its boxes is known only at run time; state the input's shape")
    if len(shape) != 3 or corners != (shape[0], shape[2], 4):
        body.refuse_inconsistent(
            f"its boxes are {list(corners)} and its scores are {list(shape)}; expected "
            "[batches, boxes, 4] and [batches, classes, boxes]"
        )
    kinds = [str(body.walk.dtype(name)) for name in (boxes, scores)]
    if kinds != ["float32"] * 2:
        body.refuse(
            f"its boxes are {kinds[0]} and its scores are {kinds[1]}; ONNX defines it for float32: "
            "cast both to float32"
        )
    largest = read_number(body, limit) if limit else 0
    if largest < 1:
        body.refuse(
            f"max_output_boxes_per_class is {largest}, so it selects no box; state a number of 1 "
            "or more"
        )
    if overlap in body.walk.constants and not 0 <= read_number(body, overlap) <= 1:
        body.refuse(f"iou_threshold is {read_number(body, overlap)}; ONNX Runtime accepts 0 to 1")
    most = min(int(largest), shape[2])
    given = (name or body.constant([0], "float32") for name in (overlap, threshold))
    centered = body.attribute("center_point_box", 0)
    rows, count = body.node.output
    for name, sizes in ((rows, (shape[0] * shape[1] * most, 3)), (count, (1,))):
        body.walk.types[name] = helper.make_tensor_type_proto(TensorProto.INT64, sizes)
    limits = {"most": most, "centered": centered, "filtered": int(bool(threshold))}
    inputs, results = [boxes, scores, *given], [rows, count]
    body.nodes.append(
        helper.make_node("BoundedSuppression", inputs, results, body.node.name, **limits)
    )
    return body.nodes


def read_number(body: NodeBuilder, name: str) -> float:
    """Return a constant with one element."""
    array = body.walk.constants[name]
    if array.size != 1:
        shape = list(array.shape)
        body.refuse_inconsistent(f"'{name}' has the shape {shape}; expected one element")
    number: float = array.item()
    return number


SUPPRESSION: dict[str, Rewrite] = {f"{DOMAIN}.NonMaxSuppression": rewrite_suppression}
