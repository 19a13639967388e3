"""Rewrites operators whose operands do not have the ranks that TVM's converters expect."""

from __future__ import annotations

from firmwright.models.onnx.graph.body import NodeBuilder, Nodes, Rewrite


def rewrite_prelu(body: NodeBuilder) -> Nodes | None:
    """Rewrite PRelu of integers, because TVM's converter supports only floats.

    Unsigned integers remain unchanged.
    """
    data, slope = body.node.input
    dtype, shape = body.walk.dtype(data), body.walk.shape(data)
    channels = body.walk.shape(slope)
    if shape is not None and channels is not None:
        refuse_slopes(body, shape, channels)
    if dtype.kind not in "iu":
        return None
    if dtype.kind == "u":
        return body.finish(data)
    below = body.add("Less", data, body.constant(0, dtype))
    return body.finish(body.add("Where", below, body.add("Mul", data, slope), data))


def refuse_slopes(body: NodeBuilder, shape: tuple[int, ...], slopes: tuple[int, ...]) -> None:
    aligned = zip(reversed(slopes), reversed(shape), strict=False)
    if len(slopes) > len(shape) or any(s not in (1, length) for s, length in aligned):
        body.refuse(
            f"its slopes have shape {list(slopes)}, which cannot be broadcast to {list(shape)}; "
            "for one slope per channel, export them with a length of 1 along each later axis"
        )


def rewrite_scalar(body: NodeBuilder) -> Nodes | None:
    """Replace the scalar axis of an Unsqueeze or shape of an Expand with a list."""
    scalar = body.walk.constants.get(body.inputs(2)[1])
    if scalar is None or scalar.ndim:
        return None
    listed = body.constant(scalar.reshape(1), "int64")
    return body.finish(body.add(body.node.op_type, body.input(0), listed))


def refuse_scalar_axis(body: NodeBuilder) -> None:
    """Raise UserError if an axis is a scalar, because ONNX Runtime also rejects scalars."""
    axes = body.walk.constants.get(body.inputs(2)[1])
    if axes is not None and not axes.ndim:
        body.refuse(f"its axes are the scalar {axes}; expected a vector: state [{axes}]")


def refuse_scalar_limits(body: NodeBuilder) -> None:
    """Raise UserError if a limit of a Slice is a scalar, because ONNX Runtime rejects scalars."""
    for name, what in zip(body.node.input[1:], ("starts", "ends", "axes", "steps"), strict=False):
        limit = body.walk.constants.get(name)
        if limit is not None and not limit.ndim:
            body.refuse(f"its {what} are the scalar {limit}; expected a vector: state [{limit}]")


def rewrite_vector_product(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MatMulInteger of vectors as a product of matrices, because TVM rejects vectors."""
    vectors = [
        i for i, name in enumerate(body.node.input[:2]) if len(body.walk.shape(name) or ()) == 1
    ]
    if not vectors:
        return None
    operands = list(body.node.input)
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
