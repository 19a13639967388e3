"""Rewrites operators whose operands do not have the ranks that TVM's converters expect."""

from __future__ import annotations

import onnx

from firmwright.models.onnx.graph.body import NodeBuilder, read_inputs, refuse
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer


def rewrite_prelu(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite PRelu of integers, because TVM's converter supports only floats.

    Unsigned integers remain unchanged.
    """
    data, slope = node.input
    dtype, shape = walk.dtype(data), walk.shape(data)
    channels = walk.shape(slope)
    if shape is not None and channels is not None:
        refuse_slopes(node, shape, channels)
    if dtype.kind not in "iu":
        return None
    body = NodeBuilder(node, walk)
    if dtype.kind == "u":
        return body.finish(data)
    below = body.add("Less", data, body.constant(0, dtype))
    return body.finish(body.add("Where", below, body.add("Mul", data, slope), data))


def refuse_slopes(node: onnx.NodeProto, shape: tuple[int, ...], slopes: tuple[int, ...]) -> None:
    aligned = zip(reversed(slopes), reversed(shape), strict=False)
    if len(slopes) > len(shape) or any(s not in (1, length) for s, length in aligned):
        refuse(
            node,
            f"its slopes have shape {list(slopes)}, which cannot be broadcast to {list(shape)}; "
            "for one slope per channel, export them with a length of 1 along each later axis",
        )


def rewrite_scalar(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Replace the scalar axis of an Unsqueeze or shape of an Expand with a list."""
    scalar = walk.constants.get(read_inputs(node, 2)[1])
    if scalar is None or scalar.ndim:
        return None
    body = NodeBuilder(node, walk)
    listed = body.constant(scalar.reshape(1), "int64")
    return body.finish(body.add(node.op_type, node.input[0], listed))


def refuse_scalar_axis(node: onnx.NodeProto, walk: Specializer) -> None:
    """Raise UserError if an axis is a scalar, because ONNX Runtime also rejects scalars."""
    axes = walk.constants.get(read_inputs(node, 2)[1])
    if axes is not None and not axes.ndim:
        refuse(node, f"its axes are the scalar {axes}; expected a vector: state [{axes}]")


def refuse_scalar_limits(node: onnx.NodeProto, walk: Specializer) -> None:
    """Raise UserError if a limit of a Slice is a scalar, because ONNX Runtime rejects scalars."""
    for name, what in zip(node.input[1:], ("starts", "ends", "axes", "steps"), strict=False):
        limit = walk.constants.get(name)
        if limit is not None and not limit.ndim:
            refuse(node, f"its {what} are the scalar {limit}; expected a vector: state [{limit}]")


def rewrite_vector_product(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite a MatMulInteger of vectors as a product of matrices, because TVM rejects vectors."""
    vectors = [i for i, name in enumerate(node.input[:2]) if len(walk.shape(name) or ()) == 1]
    if not vectors:
        return None
    body, operands = NodeBuilder(node, walk), list(node.input)
    for position in vectors:
        operands[position] = body.unsqueeze(operands[position], position)
    product = body.add("MatMulInteger", *operands)
    return body.finish(body.squeeze(product, *(position - 2 for position in vectors)))


RANKS: dict[str, Rewrite] = {
    "Expand": rewrite_scalar,
    "MatMulInteger": rewrite_vector_product,
    "PRelu": rewrite_prelu,
    "Slice": refuse_scalar_limits,
    "Squeeze": refuse_scalar_axis,
    "Unsqueeze": rewrite_scalar,
}
