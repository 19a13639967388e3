"""Converts integers between quantization parameters like TFLite's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    Integer,
    Multipliers,
    apply_scale,
    apply_scale_once,
    apply_scale_wide,
    find_tie_direction,
    shorten_mantissas,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import (
    BATCH_MATMUL,
    OutputQuantParams,
    QuantizedTensor,
)

SINGLE_ROUNDING_OPERATORS = frozenset({"relax.matmul"})
"""Operators whose sums are scaled with one rounding.

LiteRT 2.3.0's FULLY_CONNECTED scales in double precision and rounds half away from zero. The
reference kernel of FULLY_CONNECTED also rounds once, although other reference kernels round twice
in fixed point. A comparison of LiteRT's results with both roundings showed this difference.
"""


def requantize(
    builder: RegionBuilder, source: QuantizedTensor, params: OutputQuantParams, single: bool = False
) -> relax.Expr:
    """Scale, add the zero point and clamp.

    If ``single`` is true, the quotient of the scales is float32.
    """
    quotient = find_quotient(source, params, single)
    factors = to_fixed_point(quotient)
    largest = source.largest << int(factors.left_shift.max())
    sums = "int64" if dtype_of(source.data) == "int64" else "int32"
    if source.has_wide_sums and source.operator not in SINGLE_ROUNDING_OPERATORS:
        factors = shorten_mantissas(factors)

    def rescale(x: Integer, mantissa: Integer, left: Integer, right: Integer) -> Integer:
        if source.operator in SINGLE_ROUNDING_OPERATORS:
            ties = find_tie_direction(quotient, factors, source.largest)
            return to_storage(apply_scale_once(x, mantissa, left, right, ties), params)
        if source.has_wide_sums:
            return to_storage(apply_scale_wide(x, mantissa, left, right), params)
        return to_storage(apply_scale(x, mantissa, left, right, largest), params)

    def element(indices: Any, data: te.Tensor) -> Integer:
        centered = data(*indices).astype(sums) - int(source.zero_point[0])
        return rescale(centered, *immediates(factors))

    def channel_element(indices: Any, data: te.Tensor, *tables: te.Tensor) -> Integer:
        mantissa, right, *left = (table(indices[source.axis]) for table in tables)
        return rescale(data(*indices), mantissa, (*left, tirx.const(0, "int32"))[0], right)

    if factors.shift.size == 1 and source.zero_point.size == 1:
        return builder.emit_elements("requantize", element, source.data, result="requantized")
    tables = emit_tables(builder, factors)
    data = builder.subtract_zero_point(source)
    return builder.emit_elements("requantize", channel_element, data, *tables, result="requantized")


def emit_tables(builder: RegionBuilder, factors: Multipliers) -> list[relax.Var]:
    """Emit tables of multipliers and right shifts per channel.

    A table of left shifts follows if any channel needs a left shift.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        "multipliers": factors.mantissa,
        "shifts": factors.right_shift,
    }
    if factors.left_shift.any():
        arrays["left_shifts"] = factors.left_shift
    return [builder.emit_constant(name, array) for name, array in arrays.items()]


def find_quotient(
    source: QuantizedTensor, params: OutputQuantParams, single: bool
) -> npt.NDArray[np.float64]:
    """Divide the source's scales by the output's scale.

    The default is double precision, as in TFLite's kernels/kernel_util.cc
    (PopulateConvolutionQuantizationParams) and kernels/quantize.cc. ``single`` selects single
    precision, as in kernels/activations.cc (ReluPrepare). For some operators, the product of two
    scales in the quotient is in single precision (GetQuantizedConvolutionMultipler).
    """
    rounded = source.scale.astype("float32")
    if single:
        quotient: npt.NDArray[np.float64] = (rounded / params.scale).astype("float64")
        return quotient
    legacy = source.activation_dtype == "uint8" and source.operator not in SINGLE_ROUNDING_OPERATORS
    if legacy or source.operator == BATCH_MATMUL:
        return rounded.astype("float64") / np.float64(params.scale)
    return source.scale / np.float64(params.scale)


def immediates(factors: Multipliers) -> tuple[Integer, Integer, Integer]:
    """Return the mantissa, left shift and right shift of a single factor as constants."""
    numbers = (factors.mantissa, factors.left_shift, factors.right_shift)
    mantissa, left, right = (tirx.const(int(n[0]), "int32") for n in numbers)
    return mantissa, left, right


def to_storage(value: Integer, params: OutputQuantParams) -> Integer:
    """Clamp a value, then add the zero point. This order prevents an overflow of the sum."""
    low, high = params.low - params.zero_point, params.high - params.zero_point
    return (te.max(te.min(value, high), low) + params.zero_point).astype(params.dtype)


def clamp(value: Integer, params: OutputQuantParams) -> Integer:
    dtype = value.ty.dtype
    low, high = (tirx.const(bound, dtype) for bound in (params.low, params.high))
    return te.max(te.min(value, high), low).astype(params.dtype)
