"""A ReLU or clip in front of a quantize is a limit of its integers.

Exact because rounding to a grid never reorders values.
"""

from __future__ import annotations

from math import inf

from tvm import relax

from firmwright.ir.relax import Constant, constant_array, operator_name, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction


def fuse_activation(
    builder: RegionBuilder, argument: relax.Expr, grid: OutputQuantParams, nearest: RoundFunction
) -> tuple[relax.Expr, OutputQuantParams]:
    """Return what a chain of ReLUs and clips reads, and the grid with their limits."""
    limits = match_clamp(builder, argument)
    if limits is None:
        return argument, grid
    operand, low, high = limits
    return fuse_activation(builder, operand, grid.clamp_to(low, high, nearest), nearest)


def match_clamp(
    builder: RegionBuilder, argument: relax.Expr
) -> tuple[relax.Expr, float, float] | None:
    """Return operand and limits of an operator that only clamps to constants."""
    call = builder.definitions.get(argument)
    if call is None:
        return None
    name = operator_name(call)
    if name in ("relax.nn.relu", "relax.nn.relu6"):
        return call.args[0], 0.0, 6.0 if name.endswith("6") else inf
    if name == "relax.clip":
        return call.args[0], *(float(a.value) for a in call.args[1:])
    if name in ("relax.maximum", "relax.minimum") and isinstance(call.args[1], Constant):
        limit = constant_array(call.args[1])
        if limit.size == 1 and static_shape(call) == static_shape(call.args[0]):
            bound = float(limit.item())
            return call.args[0], *((bound, inf) if "max" in name else (-inf, bound))
    return None
