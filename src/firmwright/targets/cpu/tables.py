"""Functions of one 8-bit value as tables of 256 entries, made at build time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.targets.cpu.quantised import (
    Grid,
    Quantised,
    largest_integer,
    smallest_integer,
)
from firmwright.transforms.rewriting import dtype_of

if TYPE_CHECKING:
    from firmwright.targets.cpu.integer_arithmetic import IntegerArithmetic

Function = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def sigmoid(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    return looked_up(region, call, grid, lambda x: 1.0 / (1.0 + np.exp(np.minimum(-x, 700.0))))


def tanh(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    return looked_up(region, call, grid, np.tanh)


def looked_up(
    region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid, function: Function
) -> relax.Expr | None:
    source = region.value(call.args[0])
    if not isinstance(source, Quantised) or not (source.per_tensor and source.eight_bit):
        return None
    table = region.constant("table", table_of(source, grid, function))
    first = smallest_integer(dtype_of(source.data))

    def compute(data: te.Tensor, table: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Any:
            return table(data(*indices).astype("int32") - first)

        return te.compute(data.shape, element, name="looked_up")

    return region.emit_te("look_up", compute, source.data, table)


def table_of(source: Quantised, grid: Grid, function: Function) -> npt.NDArray[Any]:
    """Evaluate the function at every value of the source's type, smallest first.

    In float32 as TFLite fills its tables (tensorflow/lite/kernels/internal/common.h, LUTPopulate):
    scaled by the reciprocal of the output's scale, rounded half away from zero.
    """
    dtype = dtype_of(source.data)
    stored = np.arange(smallest_integer(dtype), largest_integer(dtype) + 1)
    real = np.float32(source.scale[0]) * np.float32(stored - source.zero_point[0])
    transformed = function(real.astype("float64")).astype("float32")
    scaled = transformed * (np.float32(1) / grid.scale)
    nearest = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    table: npt.NDArray[Any] = np.clip(nearest + grid.zero_point, grid.low, grid.high)
    return table.astype(grid.dtype)
