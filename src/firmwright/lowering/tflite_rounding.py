"""Selects the computations whose results equal TFLite's reference kernels in every bit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from firmwright.ir.nodes import Call, Expr
from firmwright.ir.relax import operator_name
from firmwright.lowering.kernels.activations import (
    absolute,
    exponential,
    gelu,
    gelu_tanh,
    hard_swish,
    leaky_relu,
    logarithm,
    rsqrt,
    square_root,
)
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.elementwise import (
    COMPARISONS,
    add_or_subtract,
    compare,
    multiply,
    prelu,
    squared_difference,
)
from firmwright.lowering.kernels.interpolation import logistic, tanh
from firmwright.lowering.kernels.moved_elements import quantize_before_moving
from firmwright.lowering.kernels.pooling import average_pool, reduce_mean, reduce_sum
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    RoundFunction,
)
from firmwright.lowering.kernels.real_numbers import quantize_real
from firmwright.lowering.kernels.requantization import requantize
from firmwright.lowering.kernels.resize import resize_bilinear
from firmwright.lowering.kernels.rounding import fuse_activation
from firmwright.lowering.kernels.softmax import softmax
from firmwright.lowering.kernels.tables import concatenate, lower_chain_by_table, round_half_away

IntegerKernel = Callable[[RegionBuilder, Call, OutputQuantParams], Expr | None]

INTEGER_KERNELS: dict[str, IntegerKernel] = {
    "relax.add": partial(add_or_subtract, combine=operator.add),
    "relax.subtract": partial(add_or_subtract, combine=operator.sub),
    "relax.multiply": multiply,
    "relax.nn.avg_pool1d": average_pool,
    "relax.nn.avg_pool2d": average_pool,
    "relax.nn.avg_pool3d": average_pool,
    "relax.mean": reduce_mean,
    "relax.nn.softmax": softmax,
    "relax.abs": absolute,
    "relax.concat": concatenate,
    "relax.divide": hard_swish,
    "relax.exp": exponential,
    "relax.image.resize2d": resize_bilinear,
    "relax.log": logarithm,
    "relax.nn.gelu": gelu,
    "relax.nn.gelu_tanh": gelu_tanh,
    "relax.nn.leakyrelu": leaky_relu,
    "relax.nn.prelu": prelu,
    "relax.rsqrt": rsqrt,
    "relax.sigmoid": logistic,
    "relax.square": squared_difference,
    "relax.sqrt": square_root,
    "relax.sum": reduce_sum,
    "relax.tanh": tanh,
}
"""The kernels of operators that compute their real result on integers."""


class TfliteRounding:
    """Fixed-point multipliers with double rounding, and separate kernels for some operators.

    For a TFLite model, the results equal the results of LiteRT's reference kernels exactly. Other
    formats use these kernels, and tables of float32 functions that round halves away from zero.
    Moved elements stay unchanged. The remaining operators run in float32.
    """

    nearest: RoundFunction = staticmethod(round_half_away)
    nearest_in_c = "roundf"

    def lower_to_integers(self, builder: RegionBuilder, call: Call) -> Expr | None:
        return compare(builder, call) if operator_name(call) in COMPARISONS else None

    def quantize(self, builder: RegionBuilder, argument: Expr, params: OutputQuantParams) -> Expr:
        operand, narrowed = fuse_activation(builder.definitions, argument, params, self.nearest)
        source = builder.value(operand)
        if isinstance(source, QuantizedTensor):
            activation_alone = operand is not argument and not source.operator
            return requantize(builder, source, narrowed, single=activation_alone)
        call = builder.definitions.get(operand)
        kernel = None if call is None else INTEGER_KERNELS.get(operator_name(call))
        result = kernel(builder, call, narrowed) if kernel else None
        if result is None:
            result = lower_chain_by_table(builder, argument, params, quantize_by_reciprocal)
        if result is None:
            result = quantize_before_moving(builder, operand, narrowed, self)
        return quantize_real(builder, operand, narrowed, self) if result is None else result


def quantize_by_reciprocal(
    real: npt.NDArray[np.float32], scale: np.float32
) -> npt.NDArray[np.float32]:
    """Return whole steps, computed with the reciprocal of the scale like TFLite's tables.

    Source: tensorflow/lite/kernels/internal/common.h, LUTPopulate.
    """
    return round_half_away(real * (np.float32(1) / scale))
