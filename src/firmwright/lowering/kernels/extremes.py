"""Computes argmax and argmin, the position of the largest or smallest element on an axis.

TVM's loops start at position -1 with the extreme value of the type. If all elements equal this
value, TVM's result stays -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import static_shape

INDEX = "int64"

Pair = tuple[Any, Any]
"""A position, and the element at this position."""


def argmax(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    return emit_position(builder, call, lambda a, b: a > b, te.min_value)


def argmin(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    return emit_position(builder, call, lambda a, b: a < b, te.max_value)


def emit_position(
    builder: relax.BlockBuilder,
    call: tvm.ir.Call,
    is_better: Callable[[Any, Any], Any],
    worst: Callable[[str], Any],
) -> relax.Expr:
    """Emit the int64 position of the first best element on one axis or on all axes."""

    def choose(one: Pair, other: Pair) -> Pair:
        is_first = tirx.And(one[1].equal(other[1]), one[0] < other[0])
        better = is_better(one[1], other[1])
        position = tirx.Select(tirx.Or(better, is_first), one[0], other[0])
        return position, tirx.Select(better, one[1], other[1])

    def start(_position: str, element: str) -> Pair:
        return tirx.const(0, INDEX), worst(element)

    def find_position(data: te.Tensor) -> te.Tensor:
        return reduce_to_position(data, axes, keeps, te.comm_reducer(choose, start, name="place"))

    rank = len(static_shape(call.args[0]))
    axes = range(rank) if call.attrs.axis is None else (int(call.attrs.axis) % rank,)
    keeps = bool(call.attrs.keepdims)
    return builder.call_te(find_position, call.args[0], primfunc_name_hint=call.op.name[6:])


def reduce_to_position(
    data: te.Tensor, axes: Sequence[int], keeps: bool, reducer: Callable[..., Any]
) -> te.Tensor:
    """Reduce pairs of a position and an element along ``axes``.

    The position counts the elements of these axes row by row.
    """
    shape = list(data.shape)
    steps = {a: te.reduce_axis((0, shape[a]), f"k{a}") for a in axes}

    def reduce_at(*indices: Any) -> Any:
        kept = iter(indices)
        at = [steps[axis] if axis in steps else next(kept) for axis in range(len(shape))]
        position: Any = 0
        for axis in axes:
            position = position * shape[axis] + tirx.Cast(INDEX, steps[axis].var)
        return reducer((position, data(*at)), axis=list(steps.values()))

    free = [axis for axis in range(len(shape)) if axis not in steps]
    position, _ = te.compute([shape[axis] for axis in free], reduce_at, name="best")
    kept = free if not keeps else range(len(shape))
    # Copy the result. Without a copy, the loops would store the best position so far in the result.
    return te.compute(
        [1 if axis in steps else shape[axis] for axis in kept],
        lambda *at: position(*(i for axis, i in zip(kept, at, strict=True) if axis in free)),
        name="place",
    )
