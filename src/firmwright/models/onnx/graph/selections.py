"""Rewrites pads, and operators that select or place elements.

TVM rejects some forms of these operators, or computes them incorrectly.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from firmwright.models.onnx.graph.body import along_axis, copy_node
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite


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


WRAP_OPSET = 19
"""The first opset with the mode wrap. PyTorch also writes this mode in opset 18."""


def rewrite_pad(body: NodeBuilder) -> Nodes | None:
    """Rewrite a Pad if its value is computed, or if TVM reads wrong elements.

    TVM reflects an axis only once, and reads outside an axis that is not longer than its pad. In
    the mode wrap, TVM uses the whole axis, even if a negative pad first removes elements. Raises
    UserError if negative pads remove all elements of an axis.
    """
    shape = body.shape(0)
    if shape is None:
        return None
    mode = body.attribute("mode", "constant")
    if mode == "constant":
        return pad_by_variable(body, shape)
    pads = read_pads(body, shape)
    for axis, ends in pads.items():
        if count_left(shape[axis], *ends) < 1:
            body.refuse(
                f"its pads {list(ends)} remove all {shape[axis]} elements of axis {axis}, "
                f"which mode {mode} needs; use smaller negative pads"
            )
    is_early = mode == "wrap" and body.walk.opsets[""] < WRAP_OPSET
    if not is_early and not any(is_beyond_tvm(mode, shape[a], *p) for a, p in pads.items()):
        return None
    result = body.input(0)
    for axis, ends in pads.items():
        positions = find_positions(mode, shape[axis], *ends)
        result = body.add("Gather", result, body.constant(positions, "int64"), axis=axis)
    return body.finish(result)


def pad_by_variable(body: NodeBuilder, shape: tuple[int, ...]) -> Nodes | None:
    """Rewrite a Pad with a computed value, because TVM's converter requires a constant."""
    value = body.input(2)
    if not value or value in body.walk.constants:
        return None
    inputs = [body.input(0), body.input(1), "", *body.node.input[3:]]
    inside = body.cast(body.constant(np.ones(shape), bool), "uint8")
    padded = body.add("Pad", *inputs)
    mask = body.cast(body.add("Pad", inside, *inputs[1:]), "bool")
    return body.finish(body.add("Where", mask, padded, value))


def read_pads(body: NodeBuilder, shape: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Return the pads before and after each axis. Return an empty dictionary for computed pads."""
    _, amounts, _, along = body.inputs(4)
    if not {n for n in (amounts, along) if n} <= body.walk.constants.keys():
        return {}
    pads = body.walk.constants[amounts].tolist() if amounts else body.attribute("pads", [])
    axes = body.walk.constants[along].tolist() if along else range(len(shape))
    count = len(pads) // 2
    return {
        axis % len(shape): (before, after)
        for axis, before, after in zip(axes, pads[:count], pads[count:], strict=True)
        if before or after
    }


def is_beyond_tvm(mode: str, length: int, before: int, after: int) -> bool:
    """Return whether TVM's elements of a padded axis differ from ONNX's elements."""
    if mode == "wrap":
        return min(before, after) < 0 < max(before, after)
    return mode == "reflect" and max(before, after) >= count_left(length, before, after)


def count_left(length: int, before: int, after: int) -> int:
    return length + min(before, 0) + min(after, 0)


def find_positions(
    mode: Literal["reflect", "wrap"], length: int, before: int, after: int
) -> npt.NDArray[np.int64]:
    """Return the source index of each element of a padded axis. Negative pads are applied first."""
    left = np.arange(max(-before, 0), length - max(-after, 0))
    return np.pad(left, (max(before, 0), max(after, 0)), mode)


def repeat_single_pixels(body: NodeBuilder) -> Nodes | None:
    """Repeat axes of length 1 of a GridSample that reflects positions between aligned corners.

    TVM divides by the distance of the corners. All positions of the repeated axis have one value.
    """
    shape = body.shape(0) or ()
    single = [axis for axis, length in enumerate(shape) if axis > 1 and length == 1]
    is_reflected = body.attribute("padding_mode", "zeros") == "reflection"
    if not single or not is_reflected or not body.attribute("align_corners", 0):
        return None
    picture = body.input(0)
    for axis in single:
        picture = body.add("Concat", picture, picture, axis=axis)
    sampled = copy_node(body.node)
    sampled.input[0] = picture
    return [*body.nodes, sampled]
