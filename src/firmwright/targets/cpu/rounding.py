"""How real results become integers again: the one thing in which model formats differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tvm
from tvm import relax

from firmwright.targets.cpu.quantised import Grid, Quantised

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic


class Rounding(Protocol):
    """A model format's rules."""

    def quantize(
        self, region: IntegerArithmetic, argument: relax.Expr, grid: Grid
    ) -> relax.Expr | None:
        """Put an argument of the region's function on a grid; None leaves it to float32."""

    def evaluate(self, region: IntegerArithmetic, call: tvm.ir.Call) -> relax.Expr | None:
        """Compute a call whose result is no real number on integers; None leaves it to float32."""


class OnnxRounding:
    """ONNX's QuantizeLinear: one float32 multiplication, round half to even, clamp."""

    def evaluate(self, *_: Any) -> relax.Expr | None:
        return None

    def quantize(
        self, region: IntegerArithmetic, argument: relax.Expr, grid: Grid
    ) -> relax.Expr | None:
        source = region.value(argument)
        if not isinstance(source, Quantised):
            return None
        real = region.emit(relax.op.astype(region.centred(source), "float32"))
        factor = source.along_axis(source.scale / np.float64(grid.scale)).astype("float32")
        scaled = region.emit(relax.op.multiply(real, relax.const(factor, "float32")))
        rounded = region.emit(relax.op.round(scaled))
        zero_point = relax.const(float(grid.zero_point), "float32")
        moved = region.emit(relax.op.add(rounded, zero_point))
        clamped = region.emit(relax.op.clip(moved, float(grid.low), float(grid.high)))
        return region.emit(relax.op.astype(clamped, grid.dtype))
