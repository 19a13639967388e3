"""A ReLU or clip in front of a quantize is a limit of its integers.

Exact because rounding to a grid never reorders values.
"""

from __future__ import annotations

from tvm import relax

from firmwright.ir.operators import read_clip_bounds
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction


def fuse_activation(
    builder: RegionBuilder, argument: relax.Expr, grid: OutputQuantParams, nearest: RoundFunction
) -> tuple[relax.Expr, OutputQuantParams]:
    """Return what a chain of ReLUs and clips reads, and the grid with their limits."""
    call = builder.definitions.get(argument)
    bounds = None if call is None else read_clip_bounds(call)
    if call is None or bounds is None:
        return argument, grid
    return fuse_activation(builder, call.args[0], grid.clamp_to(*bounds, nearest), nearest)
