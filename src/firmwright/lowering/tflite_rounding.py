"""TFLite's reference kernels, bit for bit: which computation puts which operator on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.relax import operator_name
from firmwright.lowering.kernels.activations import (
    absolute,
    exponential,
    gelu,
    gelu_tanh,
    hard_swish,
    leaky_relu,
    logarithm,
    reciprocal_root,
)
from firmwright.lowering.kernels.comparison import COMPARISONS, compare
from firmwright.lowering.kernels.elementwise import (
    add,
    multiply,
    prelu,
    squared_difference,
    subtract,
)
from firmwright.lowering.kernels.interpolation import hyperbolic_tangent, logistic
from firmwright.lowering.kernels.moves import quantize_before_moving
from firmwright.lowering.kernels.pooling import average_pool, mean, total
from firmwright.lowering.kernels.resize import resize_bilinear
from firmwright.lowering.kernels.softmax import softmax
from firmwright.lowering.kernels.tables import concatenation, function_table, half_away
from firmwright.lowering.quantised import Grid, Nearest, Quantised
from firmwright.lowering.requantization import quantize_real, requantize

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerArithmetic

Kernel = Callable[["IntegerArithmetic", tvm.ir.Call, Grid], relax.Expr | None]

KERNELS: dict[str, Kernel] = {
    "relax.add": add,
    "relax.subtract": subtract,
    "relax.multiply": multiply,
    "relax.nn.avg_pool1d": average_pool,
    "relax.nn.avg_pool2d": average_pool,
    "relax.nn.avg_pool3d": average_pool,
    "relax.mean": mean,
    "relax.nn.softmax": softmax,
    "relax.abs": absolute,
    "relax.concat": concatenation,
    "relax.divide": hard_swish,
    "relax.exp": exponential,
    "relax.image.resize2d": resize_bilinear,
    "relax.log": logarithm,
    "relax.nn.gelu": gelu,
    "relax.nn.gelu_tanh": gelu_tanh,
    "relax.nn.leakyrelu": leaky_relu,
    "relax.nn.prelu": prelu,
    "relax.rsqrt": reciprocal_root,
    "relax.sigmoid": logistic,
    "relax.square": squared_difference,
    "relax.sum": total,
    "relax.tanh": hyperbolic_tangent,
}
"""Operators whose real result has a kernel of its own on integers."""


class TfliteRounding:
    """Fixed-point multipliers with double rounding; a kernel of its own for some operators.

    For a TFLite model, exact to LiteRT's reference kernels. For a model of another format this is
    an arithmetic of firmwright's choice: the same kernels, tables of the float32 function with
    halves rounded away from zero, elements moved as they are. What is left runs in float32.
    """

    nearest: Nearest = staticmethod(half_away)

    def evaluate(self, region: IntegerArithmetic, call: tvm.ir.Call) -> relax.Expr | None:
        return compare(region, call) if operator_name(call) in COMPARISONS else None

    def quantize(self, region: IntegerArithmetic, argument: relax.Expr, grid: Grid) -> relax.Expr:
        operand, narrowed = region.before_activation(argument, grid, self.nearest)
        source = region.value(operand)
        if isinstance(source, Quantised):
            activation_alone = operand is not argument and not source.operator
            return requantize(region, source, narrowed, single=activation_alone)
        call = region.definitions.get(operand)
        kernel = None if call is None else KERNELS.get(operator_name(call))
        result = kernel(region, call, narrowed) if kernel else None
        if result is None:
            result = function_table(region, argument, grid, filled)
        if result is None:
            result = quantize_before_moving(region, operand, narrowed)
        return quantize_real(region, operand, narrowed, "roundf") if result is None else result


def filled(real: npt.NDArray[np.float32], scale: np.float32) -> npt.NDArray[np.float32]:
    """Return whole steps as TFLite fills its tables: by the reciprocal of the scale.

    Source: tensorflow/lite/kernels/internal/common.h, LUTPopulate.
    """
    return half_away(real * (np.float32(1) / scale))
