"""Bounds the length of NonMaxSuppression, because firmware has no variable lengths.

The result has a row for each box that the operator can select. Unused rows are -1, and a second
output of the model has the number of selected boxes. ONNX Runtime evaluates an equal graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.dialects import Body
from firmwright.models.onnx.graph.body import refuse, replace_nodes
from firmwright.models.onnx.graph.specialize import list_reads
from firmwright.models.onnx.graph.suppression import DOMAIN
from firmwright.models.onnx.suppressed_rows import RowAxes, find_rows


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
    found = body.add("NonMaxSuppression", boxes, scores, *options, **stated)
    first, second, third = (body.integers([n]) for n in (0, 1, 2))
    body.add("Slice", body.add("Shape", found), first, second, result=count)
    shape = body.add("Shape", scores)
    lengths = (body.add("Gather", shape, index) for index in (first, second, third))
    batches, classes, each = lengths
    limit = body.add("Reshape", options[0], body.integers([1]))
    most = body.add("Where", body.add("Less", limit, each), limit, each)
    length = body.add("Mul", body.add("Mul", batches, classes), most)
    unused = numpy_helper.from_array(np.array([-1], "int64"))
    size = body.add("Concat", length, body.integers([3]), axis=0)
    filler = body.add("ConstantOfShape", size, value=unused)
    longer = body.add("Concat", found, filler, axis=0)
    body.add("Slice", longer, first, length, first, result=rows)
    for new in body.nodes:
        new.ClearField("name")  # ONNX Runtime rejects two nodes of one name
    yield from body.nodes
