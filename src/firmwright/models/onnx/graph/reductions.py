"""Rewrites reductions and norms, and operands of ranks that TVM's converters do not expect."""

from __future__ import annotations

from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite, parse_rewrite

REDUCE_BOOL = """
    Reduced <keepdims, noop_with_empty_axes> (x, axes) => (y) {
        number = Cast <to = 2> (x)
        reduced = REDUCE <keepdims: int = @keepdims,
                          noop_with_empty_axes: int = @noop_with_empty_axes> (number, axes)
        y = Cast <to = 9> (reduced)
    }
"""


def make_bool_rewrite(operator: str) -> Rewrite:
    """Return a rewrite of the maximum or minimum of Booleans, which are reduced as bytes."""
    rewrite = parse_rewrite(REDUCE_BOOL.replace("REDUCE", operator))
    return lambda body: rewrite(body) if body.dtype(0).kind == "b" else None


def rewrite_lp_normalization(body: NodeBuilder) -> Nodes:
    """Rewrite LpNormalization, because TVM does not support the operator.

    A vector of norm 0 remains unchanged.
    """
    data = body.input(0)
    zero = body.constant(0, body.walk.dtype(data))
    operator = f"ReduceL{body.attribute('p', 2)}"
    norm = body.reduce(operator, data, body.attribute("axis", -1))
    quotient = body.add("Div", data, norm)
    return body.finish(body.add("Where", body.add("Equal", norm, zero), zero, quotient))


def rewrite_without_axes(body: NodeBuilder) -> Nodes | None:
    """Rewrite a reduction without axes as a function of each element. TVM omits this function."""
    axes = body.inputs(2)[1]
    reduces = axes and (axes not in body.walk.constants or body.walk.constants[axes].size)
    if reduces or not body.attribute("noop_with_empty_axes", 0):
        return None
    data = body.input(0)
    if body.node.op_type == "ReduceSumSquare":
        return body.finish(body.add("Mul", data, data))
    if body.node.op_type == "ReduceLogSum":
        return body.finish(body.add("Log", data))
    return body.finish(body.add("Abs", data))


SPECIAL_REDUCTIONS: dict[str, Rewrite | None] = {
    **dict.fromkeys(("ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum")),
    **{kind: make_bool_rewrite(kind) for kind in ("ReduceMax", "ReduceMin")},
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"), rewrite_without_axes
    ),
}
"""The rewrite of each reduction. None means that TVM's converter is correct."""


def require_vector_axes(rewrite: Rewrite | None) -> Rewrite:
    """Return a rewrite that rejects a scalar axis, because TVM reduces all axes for a scalar."""

    def checked(body: NodeBuilder) -> Nodes | None:
        refuse_scalar_axis(body)
        return rewrite(body) if rewrite else None

    return checked


REDUCTIONS: dict[str, Rewrite] = {
    "LpNormalization": rewrite_lp_normalization,
    **{kind: require_vector_axes(rewrite) for kind, rewrite in SPECIAL_REDUCTIONS.items()},
}


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
