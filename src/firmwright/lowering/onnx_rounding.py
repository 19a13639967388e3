"""Implements ONNX's rounding and documents which of its results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from firmwright.lowering.kernels.averages import average
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.data_movement import quantize_before_moving
from firmwright.lowering.kernels.exact_resize import resize_exactly
from firmwright.lowering.kernels.float_scaling import requantize_as_floats
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    RoundFunction,
)
from firmwright.lowering.kernels.real_numbers import quantize_real
from firmwright.lowering.kernels.rounding import fuse_activation
from firmwright.lowering.kernels.tables import lower_chain_by_table


class OnnxRounding:
    """ONNX's QuantizeLinear: divide by the scale, round half to even, add the zero point, clamp.

    Operators and the computation that their results are equal to:

    - A function of one stored 8-bit tensor, and elements that are only moved: equal to the graph as
      it is written, with each operator's result rounded to float32.
    - A convolution or matrix product of stored 8-bit tensors, its bias and ReLU: equal to ONNX
      Runtime's QLinearConv and QLinearMatMul. The sum is an exact int32, converted to float32 and
      multiplied by (x scale · w scale) / y scale. Both of these operations round to float32. The
      graph as it is written would add float32 products, in an order that ONNX leaves open. Its
      result differs only if the real sum is about half way between two integers.
    - An average of stored 8-bit integers: computed as a sum, in the same way. If many averages are
      half way between two integers, as for two equal scales and an even count, it is computed as
      written.
    - A bilinear resize of stored 8-bit integers: equal to the graph in exact arithmetic if the
      quotient of the scales is a simple fraction, else computed as a sum.
    - A layer norm of stored 8-bit integers: its sums are exact integers. The root of each row and
      the operations after it are float32.
    - All other operators (sums of two tensors, softmax …): float32 operator by operator, as
      written. Only sums of many terms depend on an order that ONNX leaves open.
    """

    nearest: RoundFunction = staticmethod(np.rint)
    nearest_in_c = "rintf"

    def lower_to_integers(self, *_: Any) -> relax.Expr | None:
        return None

    def quantize(
        self, builder: RegionBuilder, argument: relax.Expr, grid: OutputQuantParams
    ) -> relax.Expr:
        table = lower_chain_by_table(
            builder, argument, grid, lambda real, scale: np.rint(real / scale)
        )
        if table is not None:
            return table
        operand, grid = fuse_activation(builder.definitions, argument, grid, self.nearest)
        source = builder.value(operand)
        if isinstance(source, QuantizedTensor) and source.operator:
            requantized = requantize_as_floats(builder, source, grid)
            if requantized is None:
                requantized = requantize_in_float32(builder, source, grid)
            return requantized
        call = builder.definitions.get(operand)
        averaged = None if call is None else average(builder, call, grid)
        if averaged is not None:
            return averaged
        resized = None if call is None else resize_exactly(builder, call, grid)
        if resized is not None:
            return resized
        moved = quantize_before_moving(builder, operand, grid, self)
        return quantize_real(builder, operand, grid, self) if moved is None else moved


def requantize_in_float32(
    builder: RegionBuilder, source: QuantizedTensor, grid: OutputQuantParams
) -> relax.Expr:
    """Multiply sums by the quotient of the scales in float32, round half to even, clamp."""
    real = builder.emit(relax.op.astype(builder.subtract_zero_point(source), "float32"))
    factor: npt.NDArray[Any] = source.reshape_for_broadcast(
        source.scale.astype("float32") / grid.scale
    )
    scaled = builder.emit(relax.op.multiply(real, relax.const(factor, "float32")))
    rounded = builder.emit(relax.op.round(scaled))
    zero_point = relax.const(float(grid.zero_point), "float32")
    moved = builder.emit(relax.op.add(rounded, zero_point))
    clamped = builder.emit(relax.op.clip(moved, float(grid.low), float(grid.high)))
    return builder.emit(relax.op.astype(clamped, grid.dtype))
