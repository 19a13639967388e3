"""Implements ONNX's rounding and documents the exact results."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from firmwright.lowering.kernels.averages import average
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.exact_resize import resize_exactly
from firmwright.lowering.kernels.float_scaling import requantize_as_floats
from firmwright.lowering.kernels.moved_elements import quantize_before_moving
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

    The results of these operators equal the results of these computations:

    - A function of one stored 8-bit tensor, and elements that are only moved: the results
      equal the results of the graph, with each operator's result rounded to float32.
    - A convolution or matrix product of stored 8-bit tensors with a bias and a ReLU: the
      results equal the results of ONNX Runtime's QLinearConv and QLinearMatMul. The sum is
      an exact int32, which is converted to float32 and multiplied by (x scale · w scale) /
      y scale. Both operations round to float32. The float32 graph would add float32
      products in an order that ONNX does not define. The graph's result differs only if
      the real sum is about half way between two integers.
    - An average of stored 8-bit integers: the average is an exact sum that is scaled once.
      Many averages are half way between two integers if both scales are equal and the count
      is even. Such averages are computed in float32, like in the graph.
    - A bilinear resize of stored 8-bit integers: the results equal the exact results of the
      graph if the quotient of the scales is a simple fraction. Otherwise each result is an
      exact sum that is scaled once.
    - A layer norm of stored 8-bit integers: the sums are exact integers. The root of each
      row and the later operations are float32.
    - All other operators, such as a sum of two tensors or a softmax: each operator of the
      graph is computed in float32. Only sums of many terms depend on an order that ONNX
      does not define.
    """

    nearest: RoundFunction = staticmethod(np.rint)
    nearest_in_c = "rintf"

    def lower_to_integers(self, *_: Any) -> relax.Expr | None:
        return None

    def quantize(
        self, builder: RegionBuilder, argument: relax.Expr, params: OutputQuantParams
    ) -> relax.Expr:
        table = lower_chain_by_table(
            builder, argument, params, lambda real, scale: np.rint(real / scale)
        )
        if table is not None:
            return table
        operand, params = fuse_activation(builder.definitions, argument, params, self.nearest)
        source = builder.value(operand)
        if isinstance(source, QuantizedTensor) and source.operator:
            requantized = requantize_as_floats(builder, source, params)
            if requantized is None:
                requantized = requantize_in_float32(builder, source, params)
            return requantized
        call = builder.definitions.get(operand)
        averaged = None if call is None else average(builder, call, params)
        if averaged is not None:
            return averaged
        resized = None if call is None else resize_exactly(builder, call, params)
        if resized is not None:
            return resized
        moved = quantize_before_moving(builder, operand, params, self)
        return quantize_real(builder, operand, params, self) if moved is None else moved


def requantize_in_float32(
    builder: RegionBuilder, source: QuantizedTensor, params: OutputQuantParams
) -> relax.Expr:
    """Multiply sums by the quotient of the scales in float32, round half to even and clamp."""
    real = builder.emit(relax.op.astype(builder.subtract_zero_point(source), "float32"))
    factor: npt.NDArray[Any] = source.reshape_for_broadcast(
        source.scale.astype("float32") / params.scale
    )
    scaled = builder.emit(relax.op.multiply(real, relax.const(factor, "float32")))
    rounded = builder.emit(relax.op.round(scaled))
    zero_point = relax.const(float(params.zero_point), "float32")
    moved = builder.emit(relax.op.add(rounded, zero_point))
    clamped = builder.emit(relax.op.clip(moved, float(params.low), float(params.high)))
    return builder.emit(relax.op.astype(clamped, params.dtype))
