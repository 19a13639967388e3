"""Rewrites determinants, and operators that are products with a constant matrix.

TVM does not support DFT, STFT and Col2Im. The matrix of a DFT contains the results of ONNX's
evaluator for the unit vectors.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, evaluate_node

AXIS_INPUT_OPSET = 20
"""The first opset in which DFT's axis is an input instead of an attribute."""


def rewrite_dft(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a DFT of constant axis and length as a product with a constant matrix.

    The data are (…, length, …, components), with 1 (real) or 2 (complex) components. Sums are
    double, because most terms of a sum cancel out.
    """
    shape = walk.shape(node.input[0])
    parameters = [walk.constants.get(i) for i in node.input[1:] if i]
    if shape is None or any(p is None for p in parameters):
        return None
    by_input = walk.opsets[""] >= AXIS_INPUT_OPSET
    length = walk.constants.get(node.input[1]) if len(node.input) > 1 else None
    axis = get_attribute(node, "axis", -2 if by_input else 1)
    if by_input and len(node.input) > 2:
        axis = int(walk.constants[node.input[2]].item())
    axis %= len(shape)
    size = shape[axis] * shape[-1]
    units = np.eye(size).reshape(size, shape[axis], shape[-1])
    settings = {n: get_attribute(node, n, 0) for n in ("inverse", "onesided")}
    names = ["units", "length" if length is not None else "", "axis"]
    values = [units, *([] if length is None else [length]), np.array(1)]
    unit = helper.make_node("DFT", names, ["image"], **settings)
    images = evaluate_node(unit, values, [helper.make_opsetid("", AXIS_INPUT_OPSET)])
    if images is None:
        return None
    image = images[0]
    body = NodeBuilder(node, walk)
    order = [a for a in range(len(shape) - 1) if a != axis] + [axis, len(shape) - 1]
    others = [shape[a] for a in order[:-2]]
    last = body.add("Transpose", node.input[0], perm=order)
    rows = body.add("Reshape", last, body.constant([*others, size], "int64"))
    rows = body.add("Cast", rows, to=TensorProto.DOUBLE)
    matrix = body.constant(image.reshape(size, -1), image.dtype)
    product = body.add("MatMul", rows, matrix)
    product = body.add("Cast", product, to=walk.types[node.input[0]].tensor_type.elem_type)
    result = body.add("Reshape", product, body.constant([*others, *image.shape[1:]], "int64"))
    back = [order.index(a) for a in range(len(shape))]
    return body.finish(body.add("Transpose", result, perm=back))


MAX_ORDER = 32
"""The maximum number of rows of a matrix for Det, because each row becomes code."""


def rewrite_det(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite Det as an elimination with row pivoting, because TVM does not support Det.

    Each step subtracts multiples of the pivot row from the other rows, and (…, n - 1, n - 1)
    elements remain.
    """
    shape = walk.shape(node.input[0])
    if shape is None or shape[-1] > MAX_ORDER:
        return None
    body, dtype = NodeBuilder(node, walk), walk.dtype(node.input[0])
    zero, one = (body.constant(n, dtype) for n in (0, 1))
    batch = body.constant(shape[:-2], "int64")
    rest = body.add("Reshape", node.input[0], body.constant([-1, *shape[-2:]], "int64"))
    result = ""
    for size in range(shape[-1], 0, -1):
        column = body.add("Gather", rest, body.constant([0], "int64"), axis=2)
        position = body.add("ArgMax", body.add("Abs", column), axis=1, keepdims=1)
        rows = body.constant(np.arange(size)[:, None], "int64")
        chosen = body.add("Equal", rows, position)
        row = body.reduce("ReduceSum", body.add("Where", chosen, rest, zero), 1)
        first = body.add("Gather", rest, body.constant([0], "int64"), axis=1)
        others = body.add("Where", chosen, first, rest)
        pivot, row = (cut(body, row, 2, *ends) for ends in ((0, 1), (1, size)))
        stays = body.add("Equal", position, body.constant(0, "int64"))
        signed = body.add("Where", stays, pivot, body.add("Neg", pivot))
        result = body.add("Mul", result, signed) if result else signed
        if size > 1:
            others = cut(body, others, 1, 1, size)
            column, others = (cut(body, others, 2, *ends) for ends in ((0, 1), (1, size)))
            divisor = body.add("Where", body.add("Equal", pivot, zero), one, pivot)
            factor = body.add("Div", column, divisor)
            rest = body.add("Sub", others, body.add("Mul", factor, row))
    return body.finish(body.add("Reshape", result, batch))


def cut(body: NodeBuilder, name: str, axis: int, first: int, end: int) -> str:
    positions = (body.constant([n], "int64") for n in (first, end, axis))
    return body.add("Slice", name, *positions)


def rewrite_stft(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite an STFT of constant step and length as frames, a window and DFTs of the frames."""
    shape = walk.shape(node.input[0])
    step, window, length = [*node.input[1:], "", ""][:3]
    sizes = walk.shape(window) if window else None
    if shape is None or step not in walk.constants:
        return None
    if length in walk.constants:
        width = int(walk.constants[length].item())
    elif sizes is not None:
        width = sizes[0]
    else:
        return None
    hop = int(walk.constants[step].item())
    starts = np.arange((shape[1] - width) // hop + 1) * hop
    body = NodeBuilder(node, walk)
    positions = body.constant(starts[:, None] + np.arange(width), "int64")
    frames = body.add("Gather", node.input[0], positions, axis=1)
    if window:
        frames = body.add(
            "Mul", frames, body.add("Reshape", window, body.constant([-1, 1], "int64"))
        )
    onesided = get_attribute(node, "onesided", 1)
    if body.opset >= AXIS_INPUT_OPSET:
        axis = body.constant(2, "int64")
        return body.finish(body.add("DFT", frames, "", axis, onesided=onesided))
    return body.finish(body.add("DFT", frames, axis=2, onesided=onesided))


def rewrite_col2im(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite Col2Im as a transposed convolution, because TVM does not support Col2Im.

    The columns (N, C · block, L) become images (N · C, block, ...) with one pixel per block along
    each axis. Kernel i has a single element, which moves channel i to its position in the block.
    """
    shape = walk.shape(node.input[0])
    sizes = [walk.constants.get(i) for i in node.input[1:3]]
    if shape is None or any(s is None for s in sizes):
        return None
    image, block = ([int(n) for n in np.asarray(s)] for s in sizes)
    axes = len(image)
    strides = get_attribute(node, "strides", [1] * axes)
    dilations = get_attribute(node, "dilations", [1] * axes)
    pads = get_attribute(node, "pads", [0] * 2 * axes)
    moved = [image[i] + pads[i] + pads[i + axes] - dilations[i] * (block[i] - 1) - 1
             for i in range(axes)]  # fmt: skip
    blocks = [m // s + 1 for m, s in zip(moved, strides, strict=True)]
    elements = int(np.prod(block))
    body = NodeBuilder(node, walk)
    columns = body.constant([-1, elements, *blocks], "int64")
    kernel = np.eye(elements).reshape(elements, 1, *block)
    images = body.add(
        "ConvTranspose",
        body.add("Reshape", node.input[0], columns),
        body.constant(kernel, walk.dtype(node.input[0])),
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=[m % s for m, s in zip(moved, strides, strict=True)],
    )
    result = body.constant([shape[0], shape[1] // elements, *image], "int64")
    return body.finish(body.add("Reshape", images, result))
