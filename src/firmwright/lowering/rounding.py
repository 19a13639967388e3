"""How real results become integers again: the one thing in which roundings differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.lowering.kernels.data_movement import quantize_before_moving
from firmwright.lowering.kernels.tables import lower_chain_by_table
from firmwright.lowering.quantized_tensor import OutputQuantParams, QuantizedTensor, RoundFunction
from firmwright.lowering.requantization import quantize_real

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerRewriter


class Rounding(Protocol):
    """A recipe's ``rounding``."""

    nearest: RoundFunction
    """The whole number next to a real one, for what is computed at build time."""

    def quantize(
        self, region: IntegerRewriter, argument: relax.Expr, grid: OutputQuantParams
    ) -> relax.Expr:
        """Put a float32 argument of the region's function on a grid."""

    def lower_to_integers(self, region: IntegerRewriter, call: tvm.ir.Call) -> relax.Expr | None:
        """Compute a call whose result is no real number on integers; None leaves it to float32."""


class OnnxRounding:
    """ONNX's QuantizeLinear: divide by the scale, round half to even, add the zero point, clamp.

    What is exact, and to what:

    - A function of one stored 8-bit tensor, and elements that are only moved: to the graph as it
      is written, each operator's result rounded to float32.
    - A convolution or matrix product of stored 8-bit tensors, its bias and ReLU: to ONNX Runtime's
      QLinearConv and QLinearMatMul. The sum is an exact int32, converted to float32 and multiplied
      by (x scale · w scale) / y scale, each of both operations rounded to float32. The graph as it
      is written would add float32 products, in an order that ONNX leaves open; the result differs
      from that only where the real sum is about half way between two integers.
    - All else (sums of two tensors, averages, softmax …): float32 operator by operator, as written.
      Only sums of many terms depend on an order that ONNX leaves open.
    """

    nearest: RoundFunction = staticmethod(np.rint)

    def lower_to_integers(self, *_: Any) -> relax.Expr | None:
        return None

    def quantize(
        self, region: IntegerRewriter, argument: relax.Expr, grid: OutputQuantParams
    ) -> relax.Expr:
        table = lower_chain_by_table(
            region, argument, grid, lambda real, scale: np.rint(real / scale)
        )
        if table is not None:
            return table
        operand, grid = region.fuse_activation(argument, grid, self.nearest)
        source = region.value(operand)
        if isinstance(source, QuantizedTensor) and source.operator:
            return requantize_in_float32(region, source, grid)
        moved = quantize_before_moving(region, operand, grid)
        return quantize_real(region, operand, grid, "rintf") if moved is None else moved


def requantize_in_float32(
    region: IntegerRewriter, source: QuantizedTensor, grid: OutputQuantParams
) -> relax.Expr:
    """Multiply sums by the quotient of the scales in float32, round half to even, clamp."""
    real = region.emit(relax.op.astype(region.subtract_zero_point(source), "float32"))
    factor: npt.NDArray[Any] = source.reshape_for_broadcast(
        source.scale.astype("float32") / grid.scale
    )
    scaled = region.emit(relax.op.multiply(real, relax.const(factor, "float32")))
    rounded = region.emit(relax.op.round(scaled))
    zero_point = relax.const(float(grid.zero_point), "float32")
    moved = region.emit(relax.op.add(rounded, zero_point))
    clamped = region.emit(relax.op.clip(moved, float(grid.low), float(grid.high)))
    return region.emit(relax.op.astype(clamped, grid.dtype))
