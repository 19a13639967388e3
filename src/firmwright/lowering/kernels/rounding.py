"""Defines the conversion of real results to integers, the only difference between roundings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from firmwright.ir.chains import skip_clips
from firmwright.ir.nodes import Call, Expr, Var
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction


class Rounding(Protocol):
    """The interface of a recipe's ``rounding``."""

    nearest: RoundFunction
    """Rounds a real number to a whole number, for values that are computed at build time."""

    nearest_in_c: str
    """The function of the C library that rounds like ``nearest``."""

    def quantize(self, builder: RegionBuilder, argument: Expr, params: OutputQuantParams) -> Expr:
        """Return a float32 argument of the region's function, quantized to integers."""

    def lower_to_integers(self, builder: RegionBuilder, call: Call) -> Expr | None:
        """Return a call's result on integers, or None if the call must be computed in float32."""


def fuse_activation(
    definitions: Mapping[Var, Call],
    argument: Expr,
    params: OutputQuantParams,
    nearest: RoundFunction,
) -> tuple[Expr, OutputQuantParams]:
    """Return the operand of a chain of ReLUs and clips, and the limited parameters.

    ``definitions`` maps variables to values. The result is exact, because quantization never
    reorders values.
    """
    argument, bounds = skip_clips(argument, definitions)
    for low, high in bounds:
        params = params.clamp_to(low, high, nearest)
    return argument, params
