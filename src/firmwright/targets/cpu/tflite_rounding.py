"""TFLite's reference kernels, bit for bit: which computation puts which operator on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import tvm
from tvm import relax

from firmwright.targets.cpu.elementwise import add, multiply, subtract
from firmwright.targets.cpu.moves import quantize_before_moving
from firmwright.targets.cpu.pooling import average_pool, mean
from firmwright.targets.cpu.quantised import Grid, Nearest, Quantised
from firmwright.targets.cpu.requantization import quantize_real, requantize
from firmwright.targets.cpu.softmax import softmax
from firmwright.targets.cpu.tables import function_table, half_away, sigmoid, tanh
from firmwright.transforms.rewriting import operator_name

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic

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
    "relax.sigmoid": sigmoid,
    "relax.tanh": tanh,
}
"""Operators whose real result has a kernel of its own on integers."""


class TfliteRounding:
    """Fixed-point multipliers with double rounding; a kernel of its own for some operators.

    For a TFLite model, exact to LiteRT's reference kernels. For a model of another format this is
    an arithmetic of firmwright's choice: the same kernels, tables of the float32 function with
    halves rounded away from zero, elements moved as they are. What is left runs in float32.
    """

    nearest: Nearest = staticmethod(half_away)

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
            result = function_table(region, argument, grid, self.nearest)
        if result is None:
            result = quantize_before_moving(region, operand, narrowed)
        return quantize_real(region, operand, narrowed, "roundf") if result is None else result
