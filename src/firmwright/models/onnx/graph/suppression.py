"""Bounds the length of NonMaxSuppression, because firmware has no variable lengths.

The result has a row for each box that the operator can select. Unused rows are -1, and a second
output of the model has the number of selected boxes. ONNX Runtime evaluates an equal graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.graph.body import (
    Body,
    get_attribute,
    list_reads,
    read_inputs,
    refuse,
    replace_nodes,
)
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite


def bound_suppressions(model: onnx.ModelProto) -> tuple[str, ...]:
    """Replace each NonMaxSuppression of the main graph with its bounded form, and return notes.

    Raises UserError if an operator reads the rows and can mix used and unused rows.
    """
    if not any(is_suppression(node) for node in model.graph.node):
        return ()
    drop_unread_nodes(model.graph)
    values = (*model.graph.input, *model.graph.initializer)
    names = {*(v.name for v in values), *(o for n in model.graph.node for o in n.output)}
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    facts, notes = find_rows(model), []
    for node in filter(is_suppression, model.graph.node):
        refuse_mixtures(model.graph, node, facts)
        rows, count = node.output[0], f"{node.output[0]}_count"
        while count in names:
            count += "_"
        names.add(count)
        node.domain = DOMAIN
        node.output.append(count)
        model.graph.output.append(helper.make_tensor_value_info(count, TensorProto.INT64, [1]))
        notes.append(
            f"NonMaxSuppression ('{rows}') has a fixed number of rows, unused rows are -1; output "
            f"'{count}' has the number of selected boxes"
        )
    return tuple(notes)


def is_suppression(node: onnx.NodeProto) -> bool:
    has_kind = node.op_type == "NonMaxSuppression" and node.domain in ("", "ai.onnx")
    return has_kind and bool(node.output)


def drop_unread_nodes(graph: onnx.GraphProto) -> None:
    """Remove the nodes whose results reach no output, so that they need no bound."""
    read, kept = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        if read.intersection(node.output):
            read.update(list_reads(node))
            kept.append(node)
    replace_nodes(graph, kept[::-1])


def refuse_mixtures(graph: onnx.GraphProto, suppression: onnx.NodeProto, rows: RowAxes) -> None:
    """Raise UserError for an operator that can mix used and unused rows."""
    rows.axes.clear()
    rows.axes[suppression.output[0]] = 0
    for node in graph.node:
        if not rows.follow(node):
            label = suppression.name or suppression.output[0]
            refuse(
                node,
                f"it reads results of NonMaxSuppression '{label}', whose number of rows is known "
                "only at run time; end the model before this operator",
            )


def expand_suppressions(model: onnx.ModelProto) -> None:
    """Write the bounded form with ONNX's operators, for the reference."""
    if any(node.domain == DOMAIN for node in model.graph.node):
        replace_nodes(model.graph, [new for node in model.graph.node for new in expand(node)])


def expand(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a bounded form: NonMaxSuppression, its number of rows, and more rows."""
    if node.domain != DOMAIN:
        yield node
        return
    body, (boxes, scores, *options) = Body(node), node.input
    rows, count = node.output
    stated = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    selection = body.add("NonMaxSuppression", boxes, scores, *options, **stated)
    first, second, third = (body.constant([n], "int64") for n in (0, 1, 2))
    body.add("Slice", body.add("Shape", selection), first, second, result=count)
    shape = body.add("Shape", scores)
    lengths = (body.add("Gather", shape, index) for index in (first, second, third))
    batches, classes, each = lengths
    limit = body.add("Reshape", options[0], body.constant([1], "int64"))
    most = body.add("Where", body.add("Less", limit, each), limit, each)
    length = body.add("Mul", body.add("Mul", batches, classes), most)
    unused = numpy_helper.from_array(np.array([-1], "int64"))
    size = body.add("Concat", length, body.constant([3], "int64"), axis=0)
    filler = body.add("ConstantOfShape", size, value=unused)
    longer = body.add("Concat", selection, filler, axis=0)
    body.add("Slice", longer, first, length, first, result=rows)
    for new in body.nodes:
        new.ClearField("name")  # ONNX Runtime rejects two nodes of one name
    yield from body.nodes


ELEMENTWISE = frozenset(
    """
    Abs Add And Cast Ceil Clip DequantizeLinear Div Equal Exp Floor Greater GreaterOrEqual Identity
    Less LessOrEqual Max Min Mul Neg Not Or QuantizeLinear Round Sigmoid Sqrt Sub
    """.split()
)

DOMAINS = ("", "ai.onnx", "com.microsoft")

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class RowAxes:
    """The axes of the rows, by the names of the tensors that have rows of one operator.

    An operator may read the rows only if no used row of its result depends on an unused row, and if
    the used rows remain the first rows.
    """

    ranks: Mapping[str, int]
    constants: Mapping[str, onnx.TensorProto]
    axes: dict[str, int] = field(default_factory=dict)

    def follow(self, node: onnx.NodeProto) -> bool:
        """Note the rows of a node's results. Return whether the node keeps the rows apart."""
        read = [name for name in list_reads(node) if name in self.axes]
        if not read:
            return True
        known = node.domain in DOMAINS and set(read) <= set(node.input)  # no graph reads the rows
        axis = self.find_axis(node, read) if known else None
        self.axes.update((name, axis) for name in node.output if axis is not None)
        return axis is not None

    def find_axis(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows in a node's results, or None if the node can mix rows."""
        kind, (first, second) = node.op_type, read_inputs(node, 2)
        if kind in ELEMENTWISE and (kind not in QUANTIZERS or read == [first]):
            return self.align(node, read)
        if kind == "Gather":
            return self.gather(first, second, get_attribute(node, "axis", 0))
        if kind == "GatherND" and read == [second] != [first]:
            rows, rank = self.axes[second], self.ranks.get(second, 0)
            return None if get_attribute(node, "batch_dims", 0) or rows + 1 >= rank else rows
        if kind in ("Concat", "Slice", "Split", "Squeeze", "Unsqueeze"):
            return self.find_other_axis(node, read)
        return None

    def align(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows after an operator that broadcasts its inputs."""
        names = [*read, node.output[0]]
        if not all(name in self.ranks for name in names):
            return None
        from_end = {self.axes[name] - self.ranks[name] for name in read}
        return from_end.pop() + self.ranks[node.output[0]] if len(from_end) == 1 else None

    def gather(self, data: str, indices: str, stated: int) -> int | None:
        """Return the axis of the rows after a Gather of the rows, or by the rows."""
        rows, axes = self.axes.get(data), self.normalize([stated], data)
        if axes is None or (rows is not None and indices in self.axes):
            return None
        (axis,), rank = axes, self.ranks.get(indices)
        if rows is None:
            return axis + self.axes[indices]
        return None if axis == rows or rank is None else rows + (axis < rows) * (rank - 1)

    def find_other_axis(self, node: onnx.NodeProto, read: list[str]) -> int | None:
        """Return the axis of the rows after an operator on other axes."""
        kind, rows = node.op_type, self.axes[read[0]]
        joins = kind == "Concat" and all(self.axes[name] == rows for name in read)
        if not joins and read != [node.input[0]]:
            return None
        shaped = node.output[0] if kind == "Unsqueeze" else node.input[0]
        axes = self.normalize(self.state_axes(node), shaped)
        if axes is None:
            return None
        if kind == "Unsqueeze":
            free = [a for a in range(self.ranks.get(shaped, 0)) if a not in axes]
            return free[rows] if rows < len(free) else None
        return None if rows in axes else rows - (kind == "Squeeze") * sum(a < rows for a in axes)

    def state_axes(self, node: onnx.NodeProto) -> list[int] | None:
        """Return the axes on which an operator works, or None if they are not stated."""
        if node.op_type in ("Concat", "Split"):
            return [get_attribute(node, "axis", 0)]
        stated: Any = get_attribute(node, "axes", None)
        name = read_inputs(node, 4)[3 if node.op_type == "Slice" else 1]
        if stated is None and name in self.constants:
            stated = np.atleast_1d(numpy_helper.to_array(self.constants[name])).tolist()
        return None if stated is None else list(stated)

    def normalize(self, axes: list[int] | None, name: str) -> list[int] | None:
        """Return the axes of a tensor as numbers from 0, or None if they are not known."""
        rank = self.ranks.get(name)
        if axes is None or (rank is None and min(axes, default=0) < 0):
            return None
        return [axis + (rank or 0) if axis < 0 else axis for axis in axes]


def find_rows(model: onnx.ModelProto) -> RowAxes:
    """Return the facts with which the rows of an operator are followed; no rows are known yet."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):  # a damaged model
        graph = model.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {v.name: v.type.tensor_type for v in values}
    ranks = {name: len(t.shape.dim) for name, t in shapes.items() if t.HasField("shape")}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    ranks |= {name: len(tensor.dims) for name, tensor in constants.items()}
    return RowAxes(ranks, constants)


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
    given = (name or body.constant([0]) for name in (overlap, threshold))
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
