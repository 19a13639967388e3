"""Rewrites determinants, and operators that are products with a constant matrix.

TVM does not support DFT, STFT and Col2Im. The matrix of a DFT contains the results of ONNX's
evaluator for the unit vectors.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, evaluate_node

AXIS_INPUT_OPSET = 20
"""The first opset in which DFT's axis is an input instead of an attribute."""


def rewrite_dft(body: NodeBuilder) -> Nodes | None:
    """Rewrite a DFT of constant axis and length as a product with a constant matrix.

    The data are (…, length, …, components), with 1 (real) or 2 (complex) components. Sums are
    double, because most terms of a sum cancel out.
    """
    shape = body.shape(0)
    parameters = [body.walk.constants.get(i) for i in body.node.input[1:] if i]
    if shape is None or any(p is None for p in parameters):
        return None
    by_input = body.walk.opsets[""] >= AXIS_INPUT_OPSET
    length = body.walk.constants.get(body.input(1)) if len(body.node.input) > 1 else None
    axis = body.attribute("axis", -2 if by_input else 1)
    if by_input and len(body.node.input) > 2:
        axis = int(body.walk.constants[body.input(2)].item())
    axis %= len(shape)
    size = shape[axis] * shape[-1]
    units = np.eye(size).reshape(size, shape[axis], shape[-1])
    settings = {n: body.attribute(n, 0) for n in ("inverse", "onesided")}
    names = ["units", "length" if length is not None else "", "axis"]
    values = [units, *([] if length is None else [length]), np.array(1)]
    unit = helper.make_node("DFT", names, ["image"], **settings)
    images = evaluate_node(unit, values, [helper.make_opsetid("", AXIS_INPUT_OPSET)])
    if images is None:
        return None
    image = images[0]
    order = [a for a in range(len(shape) - 1) if a != axis] + [axis, len(shape) - 1]
    others = [shape[a] for a in order[:-2]]
    last = body.add("Transpose", body.input(0), perm=order)
    rows = body.reshape(last, [*others, size])
    rows = body.cast(rows, "float64")
    matrix = body.constant(image.reshape(size, -1), image.dtype)
    product = body.add("MatMul", rows, matrix)
    product = body.add("Cast", product, to=body.walk.types[body.input(0)].tensor_type.elem_type)
    result = body.reshape(product, [*others, *image.shape[1:]])
    back = [order.index(a) for a in range(len(shape))]
    return body.finish(body.add("Transpose", result, perm=back))


MAX_ORDER = 32
"""The maximum number of rows of a matrix for Det, because each row becomes code."""


def rewrite_det(body: NodeBuilder) -> Nodes | None:
    """Rewrite Det as an elimination with row pivoting, because TVM does not support Det.

    Each step subtracts multiples of the pivot row from the other rows, and (…, n - 1, n - 1)
    elements remain.
    """
    shape = body.shape(0)
    if shape is None or shape[-1] > MAX_ORDER:
        return None
    dtype = body.dtype(0)
    zero, one = (body.constant(n, dtype) for n in (0, 1))
    batch = body.constant(shape[:-2], "int64")
    rest = body.reshape(body.input(0), [-1, *shape[-2:]])
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


def rewrite_stft(body: NodeBuilder) -> Nodes | None:
    """Rewrite an STFT of constant step and length as frames, a window and DFTs of the frames."""
    shape = body.shape(0)
    step, window, length = [*body.node.input[1:], "", ""][:3]
    sizes = body.walk.shape(window) if window else None
    if shape is None or step not in body.walk.constants:
        return None
    if length in body.walk.constants:
        width = int(body.walk.constants[length].item())
    elif sizes is not None:
        width = sizes[0]
    else:
        return None
    hop = int(body.walk.constants[step].item())
    starts = np.arange((shape[1] - width) // hop + 1) * hop
    positions = body.constant(starts[:, None] + np.arange(width), "int64")
    frames = body.add("Gather", body.input(0), positions, axis=1)
    if window:
        frames = body.add("Mul", frames, body.reshape(window, [-1, 1]))
    onesided = body.attribute("onesided", 1)
    if body.opset >= AXIS_INPUT_OPSET:
        axis = body.constant(2, "int64")
        return body.finish(body.add("DFT", frames, "", axis, onesided=onesided))
    return body.finish(body.add("DFT", frames, axis=2, onesided=onesided))


def rewrite_col2im(body: NodeBuilder) -> Nodes | None:
    """Rewrite Col2Im as a transposed convolution, because TVM does not support Col2Im.

    The columns (N, C · block, L) become images (N · C, block, ...) with one pixel per block along
    each axis. Kernel i has a single element, which moves channel i to its position in the block.
    """
    shape = body.shape(0)
    sizes = [body.walk.constants.get(i) for i in body.node.input[1:3]]
    if shape is None or any(s is None for s in sizes):
        return None
    image, block = ([int(n) for n in np.asarray(s)] for s in sizes)
    axes = len(image)
    strides = body.attribute("strides", [1] * axes)
    dilations = body.attribute("dilations", [1] * axes)
    pads = body.attribute("pads", [0] * 2 * axes)
    moved = [image[i] + pads[i] + pads[i + axes] - dilations[i] * (block[i] - 1) - 1
             for i in range(axes)]  # fmt: skip
    blocks = [m // s + 1 for m, s in zip(moved, strides, strict=True)]
    elements = int(np.prod(block))
    columns = body.constant([-1, elements, *blocks], "int64")
    kernel = np.eye(elements).reshape(elements, 1, *block)
    images = body.add(
        "ConvTranspose",
        body.add("Reshape", body.input(0), columns),
        body.constant(kernel, body.dtype(0)),
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=[m % s for m, s in zip(moved, strides, strict=True)],
    )
    result = body.constant([shape[0], shape[1] // elements, *image], "int64")
    return body.finish(body.add("Reshape", images, result))
