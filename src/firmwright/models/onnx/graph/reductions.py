"""Rewrites reductions and norms that TVM does not support or computes incorrectly."""

from __future__ import annotations

from firmwright.models.onnx.graph.body import NodeBuilder, Nodes, Rewrite, parse_rewrite
from firmwright.models.onnx.graph.ranks import refuse_scalar_axis

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
