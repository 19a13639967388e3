"""How real results become integers again: the one thing in which roundings differ."""

from __future__ import annotations

from typing import Protocol

import tvm
from tvm import relax

from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, RoundFunction


class Rounding(Protocol):
    """A recipe's ``rounding``."""

    nearest: RoundFunction
    """The whole number next to a real one, for what is computed at build time."""

    def quantize(
        self, builder: RegionBuilder, argument: relax.Expr, grid: OutputQuantParams
    ) -> relax.Expr:
        """Put a float32 argument of the region's function on a grid."""

    def lower_to_integers(self, builder: RegionBuilder, call: tvm.ir.Call) -> relax.Expr | None:
        """Compute a call whose result is no real number on integers; None leaves it to float32."""
