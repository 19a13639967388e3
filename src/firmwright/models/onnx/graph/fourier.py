"""DFT as a product with a constant matrix: TVM has no converter for it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Specializer, evaluate_node

AXIS_INPUT_OPSET = 20
"""The opset since which DFT's axis is an input; it was an attribute before."""


def rewrite_dft(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a DFT of constant axis and length; the matrix is what ONNX makes of unit vectors.

    The data are (…, length, …, components), components being 1 (real) or 2 (complex). Sums are
    double: most of their terms cancel out.
    """
    shape = walk.shape(node.input[0])
    parameters = [walk.constants.get(i) for i in node.input[1:] if i]
    if shape is None or any(p is None for p in parameters):
        return None
    if get_attribute(node, "inverse", 0) and not get_attribute(node, "onesided", 0):
        return None  # where its terms cancel out, more is left than ONNX's tests allow
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
