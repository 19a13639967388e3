"""Clips whole numbers in float tensors before a cast to an integer type."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import definition, operator_name

MOVES = ("relax.permute_dims", "relax.reshape")


def clip_to_numbers(builder: relax.BlockBuilder, data: relax.Expr, numbers: range) -> relax.Expr:
    """Return the tensor with limits of whole numbers, which define its cast to an integer type.

    A cast to an integer type rounds toward zero. If no number is negative, the cast also rounds
    down, and the result reads the floats before the floor and clip of the network.
    """
    low, high = float(numbers[0]), float(numbers[-1])
    rounded = read_rounded(builder, data)
    if rounded is not None:
        data, least, most = rounded
        low, high = max(low, least), min(high, most)
    return builder.emit(relax.op.clip(data, low, high))


def read_rounded(
    builder: relax.BlockBuilder, data: relax.Expr
) -> tuple[relax.Expr, float, float] | None:
    """Return the argument of a floor, and the limits of the clip that follows, or None.

    Reshapes and permutations may follow the clip; they also move the returned argument. The result
    is None if the lower limit is negative or if a limit is not a whole number.
    """
    call = definition(builder, data)
    if operator_name(call) in MOVES:
        rounded = read_rounded(builder, call.args[0])
        if rounded is None:
            return None
        moved = tvm.ir.Call(call.op, [rounded[0], *call.args[1:]], call.attrs, call.ty_args)
        return builder.emit(moved), *rounded[1:]
    bounds = read_clip_bounds(call) if operator_name(call) == "relax.clip" else None
    if bounds is None or bounds[0] < 0 or any(float(bound) % 1 for bound in bounds):
        return None
    floor = definition(builder, call.args[0])
    return (floor.args[0], *bounds) if operator_name(floor) == "relax.floor" else None
