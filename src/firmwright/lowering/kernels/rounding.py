"""How real results become integers again: the one thing in which roundings differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from firmwright.ir.chains import skip_clips
from firmwright.ir.nodes import Call, Expr, Var
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction


class Rounding(Protocol):
    """A recipe's ``rounding``."""

    nearest: RoundFunction
    """The whole number next to a real one, for what is computed at build time."""

    nearest_in_c: str
    """The same as a function of C's library."""

    def quantize(self, builder: RegionBuilder, argument: Expr, grid: OutputQuantParams) -> Expr:
        """Put a float32 argument of the region's function on a grid."""

    def lower_to_integers(self, builder: RegionBuilder, call: Call) -> Expr | None:
        """Compute a call whose result is no real number on integers; None leaves it to float32."""


def fuse_activation(
    definitions: Mapping[Var, Call],
    argument: Expr,
    grid: OutputQuantParams,
    nearest: RoundFunction,
) -> tuple[Expr, OutputQuantParams]:
    """Return what a chain of ReLUs and clips reads, and the grid with their limits.

    ``definitions`` are what variables are bound to. Exact because rounding to a grid never
    reorders values.
    """
    argument, bounds = skip_clips(argument, definitions)
    for low, high in bounds:
        grid = grid.clamp_to(low, high, nearest)
    return argument, grid
