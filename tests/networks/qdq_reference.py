"""Results of quantized operators in numpy and Python's integers, independent of firmwright.

There are two arithmetics with one interface. ``Onnx`` computes in float32, as QuantizeLinear,
QLinearConv and QLinearMatMul define it. ``Tflite`` uses TFLite's fixed-point multipliers, written
after gemmlowp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
F32 = np.float32


@dataclass(frozen=True)
class Grid:
    """Quantization parameters: scale · (integer - zero_point), with integers of ``dtype``."""

    dtype: str
    scale: np.float32
    zero_point: int

    @property
    def limits(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def real(self, stored: Array) -> Array:
        """Dequantize as DequantizeLinear does."""
        return (stored.astype("int64") - self.zero_point).astype(F32) * self.scale

    def centered(self, stored: Array) -> Array:
        return stored.astype("int64") - self.zero_point

    def store(self, whole: Array, floor: int | None = None) -> Array:
        """Add the zero point and clamp; ``floor`` is a fused ReLU's lowest integer."""
        low, high = self.limits
        shifted = whole.astype("float64") + self.zero_point
        shifted = np.clip(shifted, low if floor is None else floor, high)
        return np.asarray(shifted, self.dtype)


class Onnx:
    """Computes in float32 with one rounding per operation, and rounds to whole numbers half to
    even."""

    name = "onnx"

    def nearest(self, x: Array) -> Array:
        return np.rint(x)

    def of_real(self, real: Array, grid: Grid) -> Array:
        return grid.store(self.nearest(real.astype(F32) / grid.scale))

    def of_function(self, real: Array, grid: Grid) -> Array:
        return grid.store(self.nearest(finite(real / grid.scale)))

    def of_sum(
        self, sums: Array, scales: Array, grid: Grid, relu: bool = False, once: bool = False
    ) -> Array:
        """Requantize int32 sums; ``once`` has no effect, because this arithmetic always rounds
        once."""
        del once
        scaled = sums.astype(F32) * (scales.astype(F32) / grid.scale)
        return grid.store(np.rint(scaled), grid.zero_point if relu else None)

    def of_stored(self, stored: Array, source: Grid, grid: Grid) -> Array:
        return self.of_real(source.real(stored), grid)

    def add(self, pairs: list[tuple[Array, Grid]], grid: Grid, sign: int) -> Array:
        left, right = (g.real(a) for a, g in pairs)
        return self.of_real(left + F32(sign) * right, grid)

    def multiply(self, pairs: list[tuple[Array, Grid]], grid: Grid) -> Array:
        left, right = (g.real(a) for a, g in pairs)
        return self.of_real(left * right, grid)

    def average(self, windows: Array, counts: Array, source: Grid, grid: Grid) -> Array:
        """Average the last axis of centered integers (0 in padding), in its order."""
        total = np.zeros(windows.shape[:-1], F32)
        for step in range(windows.shape[-1]):
            total = total + windows[..., step].astype(F32) * source.scale
        return self.of_real(total / counts.astype(F32), grid)


class Tflite:
    """Computes with integers only."""

    name = "tflite"

    def nearest(self, x: Array) -> Array:
        away = np.vectorize(lambda v: math.copysign(math.floor(abs(float(v)) + 0.5), v))
        return np.asarray(away(x))

    def of_real(self, real: Array, grid: Grid) -> Array:
        return grid.store(self.nearest(real.astype(F32) / grid.scale))

    def of_function(self, real: Array, grid: Grid) -> Array:
        """Evaluate a function as TFLite fills its tables, with the reciprocal of the scale."""
        return grid.store(self.nearest(finite(real * (F32(1) / grid.scale))))

    def of_sum(
        self, sums: Array, scales: Array, grid: Grid, relu: bool = False, once: bool = False
    ) -> Array:
        """Requantize int32 sums, rounded twice, or ``once`` as in matrix products."""
        quotients = np.broadcast_to(scales.astype("float64") / float(grid.scale), sums.shape)
        multiply = scaled_once if once else scaled_twice
        whole = elementwise(lambda x, q: multiply(int(x), *mantissa_shift(float(q))))(
            sums, quotients
        )
        return grid.store(whole, grid.zero_point if relu else None)

    def of_stored(self, stored: Array, source: Grid, grid: Grid) -> Array:
        if source == grid:
            return stored
        quotient = np.array(float(source.scale))
        return self.of_sum(source.centered(stored), quotient, grid)

    @staticmethod
    def of_joined(stored: Array, source: Grid, grid: Grid) -> Array:
        """Requantize a part as TFLite's CONCATENATION does, with one factor and one offset."""
        factor = source.scale * (F32(1) / grid.scale)
        real = stored.astype(F32) * factor + F32(-source.zero_point) * factor
        return (
            stored if source == grid else grid.store(np.trunc(real + np.copysign(F32(0.5), real)))
        )

    def add(self, pairs: list[tuple[Array, Grid]], grid: Grid, sign: int) -> Array:
        scales = [float(g.scale) for _, g in pairs]
        common = 2 * max(scales)
        factors = [mantissa_shift(s / common) for s in scales]
        last = mantissa_shift(common / (2**20 * float(grid.scale)))

        def one(left: int, right: int) -> int:
            terms = [
                scaled_twice(int(x) << 20, *f) for x, f in zip((left, right), factors, strict=True)
            ]
            return scaled_twice(terms[0] + sign * terms[1], *last)

        return grid.store(elementwise(one)(*(g.centered(a) for a, g in pairs)))

    def multiply(self, pairs: list[tuple[Array, Grid]], grid: Grid) -> Array:
        (left, one), (right, other) = pairs
        factor = mantissa_shift(float(one.scale * other.scale / grid.scale))
        products = one.centered(left) * other.centered(right)
        return grid.store(elementwise(lambda x: scaled_twice(int(x), *factor))(products))

    def average(self, windows: Array, counts: Array, source: Grid, grid: Grid) -> Array:
        """Average stored integers as TFLite's AVERAGE_POOL_2D does, or centered ones as its MEAN
        does."""
        if source == grid:
            stored = windows.sum(axis=-1) + counts * source.zero_point
            return grid.store(self.nearest(stored / counts) - source.zero_point)
        return self.mean(windows, counts, source, grid)

    def mean(self, windows: Array, counts: Array, source: Grid, grid: Grid) -> Array:
        total = windows.sum(axis=-1)
        mantissa, shift = mantissa_shift(float(source.scale) / float(grid.scale))

        def one(x: int, count: int) -> int:
            left = max(0, min(int(count).bit_length() - 1, 32, 31 + shift))
            return scaled_twice(int(x), (mantissa << left) // int(count), shift - left)

        return grid.store(elementwise(one)(total, np.broadcast_to(counts, total.shape)))


def finite(quotient: Array) -> Array:
    """Store NaN as the lowest integer."""
    return np.nan_to_num(quotient, nan=-1e9, posinf=1e9, neginf=-1e9)


def elementwise(function: Callable[..., int]) -> Callable[..., Array]:
    return np.vectorize(function, otypes=[np.int64])


def mantissa_shift(factor: float) -> tuple[int, int]:
    """factor = mantissa · 2^(shift - 31), the mantissa rounded half away from zero."""
    fraction, shift = math.frexp(factor)
    mantissa = math.floor(fraction * 2**31 + 0.5)
    return (mantissa // 2, shift + 1) if mantissa == 2**31 else (mantissa, shift)


def scaled_twice(x: int, mantissa: int, shift: int) -> int:
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT, by their definitions."""
    product = x * 2 ** max(shift, 0) * mantissa
    nudge = 2**30 if product >= 0 else 1 - 2**30
    high = abs(product + nudge) // 2**31 * (1 if product + nudge >= 0 else -1)
    divisor = 2 ** max(-shift, 0)
    return int((2 * abs(high) + divisor) // (2 * divisor) * (1 if high >= 0 else -1))


def scaled_once(x: int, mantissa: int, shift: int) -> int:
    """Round to nearest, halves up."""
    return int((x * mantissa + 2 ** (30 - shift)) // 2 ** (31 - shift))


def convolve(data: Array, weights: Array, options: dict[str, Any]) -> Array:
    """Sum centered integers as ONNX's Conv does, in any number of spatial axes."""
    (top, left, bottom, right), groups = options["pads"], options["group"]
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    outer, inner, rows, columns = weights.shape
    (sy, sx), (dy, dx) = options["strides"], options["dilations"]
    height = (padded.shape[2] - dy * (rows - 1) - 1) // sy + 1
    width = (padded.shape[3] - dx * (columns - 1) - 1) // sx + 1
    result = np.zeros((data.shape[0], outer, height, width), "int64")
    each = outer // groups
    for o in range(outer):
        group = padded[:, o // each * inner : (o // each + 1) * inner]
        for y in range(rows):
            for x in range(columns):
                seen = group[:, :, y * dy :, x * dx :][:, :, ::sy, ::sx][:, :, :height, :width]
                result[:, o] += (seen * weights[o, :, y, x][None, :, None, None]).sum(axis=1)
    return result


def windows_of(data: Array, fill: Any, options: dict[str, Any]) -> Array:
    """Return the elements of each 2-D window along a new last axis, ``fill`` in the padding."""
    top, left, bottom, right = options["pads"]
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    rows, columns = options["kernel_shape"]
    sy, sx = options["strides"]
    height, width = (padded.shape[2] - rows) // sy + 1, (padded.shape[3] - columns) // sx + 1
    return np.stack(
        [
            padded[:, :, y:, x:][:, :, ::sy, ::sx][:, :, :height, :width]
            for y in range(rows)
            for x in range(columns)
        ],
        axis=-1,
    )
