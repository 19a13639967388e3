"""Rewrites operators that select or place elements, if TVM's support is incomplete."""

from __future__ import annotations

import numpy as np

from firmwright.models.onnx.graph.body import NodeBuilder, Nodes, Rewrite, along_axis, copy_node


def rewrite_compress(body: NodeBuilder) -> Nodes | None:
    """Rewrite a Compress with a constant condition as a Gather."""
    condition = body.walk.constants.get(body.input(1))
    if condition is None:
        return None
    data = body.input(0)
    axis = body.attribute("axis", None)
    if axis is None:
        axis, data = 0, body.reshape(data, [-1])
    kept = body.constant(np.flatnonzero(condition), "int64")
    return body.finish(body.add("Gather", data, kept, axis=axis))


def rewrite_one_hot(body: NodeBuilder) -> Nodes | None:
    """Rewrite OneHot, because TVM requires constant values and integer indices."""
    shape, depth = body.shape(0), body.walk.constants.get(body.input(1))
    if shape is None or depth is None:
        return None
    axis = body.attribute("axis", -1) % (len(shape) + 1)
    index = body.cast(body.input(0), "int64")
    count = body.constant(int(depth.item()), "int64")
    negative = body.add("Less", index, body.constant(0, "int64"))
    index = body.add("Where", negative, body.add("Add", index, count), index)
    index = body.unsqueeze(index, axis)
    positions = np.arange(int(depth.item())).reshape(along_axis(axis, len(shape) + 1))
    hot = body.add("Equal", index, body.constant(positions, "int64"))
    off, on = (body.add("Gather", body.input(2), body.constant(i, "int64"), axis=0) for i in (0, 1))
    return body.finish(body.add("Where", hot, on, off))


def rewrite_reverse_sequence(body: NodeBuilder) -> Nodes | None:
    """Rewrite ReverseSequence, because TVM has no converter."""
    shape = body.shape(0)
    if shape is None:
        return None
    time, batch = body.attribute("time_axis", 0), body.attribute("batch_axis", 1)
    step = np.arange(shape[time]).reshape(along_axis(time, len(shape)))
    position = body.constant(step, "int64")
    along = body.constant(along_axis(batch, len(shape)), "int64")
    length = body.add("Reshape", body.input(1), along)
    last = body.add("Sub", length, body.constant(1, "int64"))
    source = body.add(
        "Where", body.add("Less", position, length), body.add("Sub", last, position), position
    )
    indices = body.add("Expand", source, body.constant(shape, "int64"))
    return body.finish(body.add("GatherElements", body.input(0), indices, axis=time))


def rewrite_tensor_scatter(body: NodeBuilder) -> Nodes | None:
    """Rewrite TensorScatter, because TVM does not support the operator.

    TensorScatter writes into a cache from a start position.
    """
    shape, part = (body.walk.shape(i) for i in body.node.input[:2])
    if shape is None or part is None:
        return None
    axis = body.attribute("axis", -2) % len(shape)
    steps = np.arange(part[axis]).reshape(along_axis(axis, len(shape)))
    positions = body.constant(steps, "int64")
    if len(body.node.input) > 2 and body.input(2):
        begin = body.constant(along_axis(0, len(shape)), "int64")
        begin = body.add("Reshape", body.input(2), begin)
        positions = body.add("Add", positions, body.cast(begin, "int64"))
    if body.attribute("mode", "linear") == "circular":
        positions = body.add("Mod", positions, body.constant(shape[axis], "int64"))
    positions = body.add("Expand", positions, body.constant(part, "int64"))
    data = body.node.input[:2]
    return body.finish(body.add("ScatterElements", data[0], positions, data[1], axis=axis))


def rewrite_top_k(body: NodeBuilder) -> Nodes | None:
    """Rewrite an unsorted TopK with one result as a sorted TopK, which TVM supports.

    Raises UserError if there are more results, because the order of results is undefined.
    """
    count = body.walk.constants.get(body.inputs(2)[1])
    if body.attribute("sorted", 1):
        return None
    if count is None or count.item() != 1:
        body.refuse("the order of its results is undefined; export the model with sorted=1")
    return [copy_node(body.node, ("sorted",))]


SELECTIONS: dict[str, Rewrite] = {
    "Compress": rewrite_compress,
    "OneHot": rewrite_one_hot,
    "ReverseSequence": rewrite_reverse_sequence,
    "TensorScatter": rewrite_tensor_scatter,
    "TopK": rewrite_top_k,
}
