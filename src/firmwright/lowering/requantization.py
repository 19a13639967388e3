"""From integers on one grid to integers on another, as TFLite's reference kernels do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of
from firmwright.lowering.fixed_point import (
    Factors,
    Integer,
    factors_of,
    scaled,
    scaled_once,
    scaled_wide,
    shortened,
    ties_of,
)
from firmwright.lowering.quantised import PRODUCT_OF_STACKS, Grid, Quantised

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerArithmetic

ROUNDED_ONCE = frozenset({"relax.matmul"})
"""Operators whose sums are scaled with one rounding.

LiteRT 2.3.0's FULLY_CONNECTED scales in double precision and rounds half away from zero, even
among the reference kernels, whose other operators round twice in fixed point; found by comparing
its results with both.
"""


def requantize(
    region: IntegerArithmetic, source: Quantised, grid: Grid, single: bool = False
) -> relax.Expr:
    """Scale, add the zero point, clamp.

    The quotient of the scales is in double precision, as in TFLite's kernels/kernel_util.cc
    (PopulateConvolutionQuantizationParams) and kernels/quantize.cc, or in single precision, as
    in kernels/activations.cc (ReluPrepare). The product of two scales in it is in single
    precision for some (GetQuantizedConvolutionMultipler).
    """
    scale = source.scale
    legacy = source.activations == "uint8" and source.operator not in ROUNDED_ONCE
    if legacy or source.operator == PRODUCT_OF_STACKS:
        scale = scale.astype("float32").astype("float64")
    quotient = scale / np.float64(grid.scale)
    if single:
        quotient = (source.scale.astype("float32") / grid.scale).astype("float64")
    factors = factors_of(quotient)
    largest = source.largest << int(factors.left_shift.max())
    sums = "int64" if dtype_of(source.data) == "int64" else "int32"
    if source.wide and source.operator not in ROUNDED_ONCE:
        factors = shortened(factors)

    def rescaled(x: Integer, mantissa: Integer, left: Integer, right: Integer) -> Integer:
        if source.operator in ROUNDED_ONCE:
            ties = ties_of(quotient, factors, source.largest)
            return stored(scaled_once(x, mantissa, left, right, ties), grid)
        if source.wide:
            return stored(scaled_wide(x, mantissa, left, right), grid)
        return stored(scaled(x, mantissa, left, right, largest), grid)

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            centred = data(*indices).astype(sums) - int(source.zero_point[0])
            return rescaled(centred, *immediates(factors))

        return te.compute(data.shape, element, name="requantized")

    def compute_channels(data: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            mantissa, right, *left = (table(indices[source.axis]) for table in tables)
            return rescaled(data(*indices), mantissa, (*left, tirx.const(0, "int32"))[0], right)

        return te.compute(data.shape, element, name="requantized")

    if factors.shift.size == 1 and source.zero_point.size == 1:
        return region.emit_te("requantize", compute, source.data)
    arrays: dict[str, npt.NDArray[Any]] = {
        "multipliers": factors.mantissa,
        "shifts": factors.right_shift,
    }
    if factors.left_shift.any():
        arrays["left_shifts"] = factors.left_shift
    tables = [region.constant(name, array) for name, array in arrays.items()]
    return region.emit_te("requantize", compute_channels, region.centred(source), *tables)


def quantize_real(
    region: IntegerArithmetic, argument: relax.Expr, grid: Grid, nearest: str
) -> relax.Expr:
    """Put float32 values on a grid: divide, round by the C function ``nearest``, clamp.

    A value that is no number becomes the lowest integer, as in ONNX Runtime on x86-64.
    Sources: tensorflow/lite/kernels/internal/reference/quantize.h, AffineQuantize; ONNX's
    QuantizeLinear.
    """
    low, high = (tirx.const(float(b), "float32") for b in (grid.low, grid.high))

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Any:
            quotient = data(*indices) / tirx.const(float(grid.scale), "float32")
            rounded = tirx.call_pure_extern("float32", nearest, quotient)
            placed = rounded + tirx.const(float(grid.zero_point), "float32")
            return te.min(te.max(placed, low), high).astype(grid.dtype)

        return te.compute(data.shape, element, name="quantized")

    return region.emit_te("quantize", compute, region.plain(region.value(argument)))


def immediates(factors: Factors) -> tuple[Integer, Integer, Integer]:
    """Return mantissa, left and right shift of a single factor as constants."""
    numbers = (factors.mantissa, factors.left_shift, factors.right_shift)
    mantissa, left, right = (tirx.const(int(n[0]), "int32") for n in numbers)
    return mantissa, left, right


def stored(value: Integer, grid: Grid) -> Integer:
    """Clamp and add the zero point: in this order nothing can overflow."""
    low, high = grid.low - grid.zero_point, grid.high - grid.zero_point
    return (te.max(te.min(value, high), low) + grid.zero_point).astype(grid.dtype)


def clamped(value: Integer, grid: Grid) -> Integer:
    dtype = value.ty.dtype
    low, high = (tirx.const(bound, dtype) for bound in (grid.low, grid.high))
    return te.max(te.min(value, high), low).astype(grid.dtype)
