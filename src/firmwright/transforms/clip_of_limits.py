"""A maximum and a minimum with constants are a clip."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, definition, operator_name, rewrite_calls


def convert_max_min_to_clip(module: tvm.IRModule) -> tvm.IRModule:
    """Replace min(max(x, low), high) by clip(x, low, high), for scalars with low <= high.

    With low > high the former is high everywhere, the latter low.
    """

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        inner, high = match_scalar_operand(builder, call, "relax.minimum")
        data, low = match_scalar_operand(builder, definition(builder, inner), "relax.maximum")
        if low is None or high is None or low > high:
            return call
        return relax.op.clip(data, low, high)

    return rewrite_calls(module, rewrite)


def match_scalar_operand(
    builder: relax.BlockBuilder, value: relax.Expr, name: str
) -> tuple[relax.Expr, float | None]:
    """Return the operand and the constant of an operator ``name`` of both, else None for it."""
    if operator_name(value) == name:
        for data, limit in (value.args, reversed(value.args)):
            limit = definition(builder, limit)
            if isinstance(limit, Constant) and constant_array(limit).shape == ():
                return data, constant_array(limit).item()
    return value, None
