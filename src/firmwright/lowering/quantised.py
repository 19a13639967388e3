"""What a tensor is while a region is rebuilt: real numbers, or integers on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, dtype_of, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES

LARGEST_INT32 = 2**31

PRODUCT_OF_STACKS = "product of stacks of matrices"
"""The operator of sums over two activations, unlike those over weights; TFLite's BATCH_MATMUL."""

Nearest: TypeAlias = Callable[[Any], Any]
"""Rounds float32 numbers to whole ones."""


@dataclass(frozen=True)
class Quantised:
    """scale · (data - zero_point); both of shape (1,), or one for each channel along ``axis``.

    ``largest`` bounds the magnitude of data - zero_point. ``operator`` is the one whose sums
    these are, '' for stored integers; ``activations`` the type of what went into the sums.
    """

    data: relax.Expr
    scale: npt.NDArray[np.float64]
    zero_point: npt.NDArray[np.int64]
    axis: int
    largest: int
    operator: str = ""
    activations: str = ""

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def eight_bit(self) -> bool:
        return ELEMENT_BYTES[dtype_of(self.data)] == 1

    @property
    def wide(self) -> bool:
        """Tell sums of 16-bit activations."""
        return self.activations == "int16"

    @property
    def sixteen_bit(self) -> bool:
        """Tell 16-bit activations, which TFLite quantises symmetrically."""
        return dtype_of(self.data) == "int16" and not self.zero_point.any()

    def same_grid(self, other: Quantised) -> bool:
        return bool(
            dtype_of(self.data) == dtype_of(other.data)
            and np.array_equal(np.float32(self.scale), np.float32(other.scale))
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def along_axis(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Shape per-channel values so that they broadcast against the data."""
        if values.size == 1:
            return values.reshape(())
        rank = len(static_shape(self.data))
        shape = [1] * rank
        shape[self.axis] = values.size
        return values.reshape(shape)


Value: TypeAlias = relax.Expr | Quantised


@dataclass(frozen=True)
class Grid:
    """The integers that a real tensor is to be stored as: scale · (integer - zero_point).

    ``low`` and ``high`` are the smallest and largest integer allowed, activations included.
    """

    dtype: str
    scale: np.float32
    zero_point: int
    low: int
    high: int

    def clamped(self, low: float, high: float, nearest: Nearest) -> Grid:
        """Return the grid without the integers outside the real interval [low, high].

        The bounds are quantised like any value: the quotient in float32, rounded by ``nearest``.
        TFLite's CalculateActivationRangeQuantized does the same (kernels/kernel_util.cc).
        """
        bounds = [self.low, self.high]
        for position, value in enumerate((low, high)):
            if np.isfinite(value):
                with np.errstate(over="ignore"):
                    whole = nearest(np.float32(value) / self.scale) + self.zero_point
                bounds[position] = int(np.clip(whole, self.low, self.high))
        return replace(self, low=bounds[0], high=bounds[1])


def dequantized(call: tvm.ir.Call, data: Value) -> Quantised | None:
    """Return what a ``relax.dequantize`` of ``data`` stands for, if its grid is constant."""
    scale, zero_point = call.args[1:]
    if isinstance(data, Quantised) or not dtype_of(data).startswith(("int", "uint")):
        return None
    if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)):
        return None
    scales = constant_array(scale).astype("float64").reshape(-1)
    points = constant_array(zero_point).astype("int64").reshape(-1)
    return Quantised(data, scales, points, int(call.attrs.axis), largest_value(data, points))


def largest_value(data: relax.Expr, zero_point: npt.NDArray[np.int64]) -> int:
    """Bound the magnitude of data - zero_point: by the values of a constant, else by its type."""
    if isinstance(data, Constant):
        values = constant_array(data).astype("int64")
        low, high = int(values.min()), int(values.max())
    else:
        low, high = (int(f(dtype_of(data))) for f in (smallest_integer, largest_integer))
    return max(abs(bound - int(point)) for bound in (low, high) for point in set(zero_point))


def smallest_integer(dtype: str) -> int:
    return int(np.iinfo(dtype).min)


def largest_integer(dtype: str) -> int:
    return int(np.iinfo(dtype).max)


def grid_of(call: tvm.ir.Call) -> Grid | None:
    """Return the grid of a ``relax.quantize``, if it is one constant grid of integers."""
    scale, zero_point = call.args[1:]
    dtype = str(call.attrs.out_dtype)
    if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)):
        return None
    scales, points = constant_array(scale), constant_array(zero_point)
    if scales.size != 1 or points.size != 1 or not dtype.startswith(("int", "uint")):
        return None
    limits = smallest_integer(dtype), largest_integer(dtype)
    return Grid(dtype, np.float32(scales.reshape(-1)[0]), int(points.reshape(-1)[0]), *limits)


def on_grid(source: Quantised, grid: Grid) -> bool:
    return bool(
        source.per_tensor
        and dtype_of(source.data) == grid.dtype
        and np.float32(source.scale[0]) == grid.scale
        and source.zero_point[0] == grid.zero_point
    )
