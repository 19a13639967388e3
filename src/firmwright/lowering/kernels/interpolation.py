"""Computes functions of 16-bit tensors with interpolation tables, like TFLite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer, call_fixed_point
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams
from firmwright.lowering.kernels.requantization import to_storage
from firmwright.lowering.kernels.tables import round_half_away

STEPS = 512
INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
Q15 = np.float32(1 / 32768)
UNITS_PER_ONE = 4096.0 * 3.0
"""The number of units per 1 in the arguments of the logistic table."""


def interpolation_table(
    function: Callable[[float], float],
    scales: tuple[float, float],
    zero_points: tuple[int, int],
    real: type[np.floating[Any]],
) -> npt.NDArray[np.int16]:
    """Return 513 values of a function on the range of int16, in (input, output) scales.

    Straight lines connect the values. Each value except the last is corrected by half of the error
    in the middle of the line that starts at the value. ``real`` is the type of the computation.
    Source: tensorflow/lite/kernels/internal/common.h, LUTPopulate.
    """
    low, high = (real(scales[0] * (end - zero_points[0])) for end in (INT16_MIN, INT16_MAX))
    lowest, highest = (real(scales[1] * (end - zero_points[1])) for end in (INT16_MIN, INT16_MAX))
    step = (high - low) / real(STEPS)
    factor = real(INT16_MAX - INT16_MIN + 1) / (highest - lowest)

    def value(x: Any) -> Any:
        return real(function(float(x)))

    entries = []
    for index in range(STEPS):
        here, there = value(low + real(index) * step), value(low + real(index + 1) * step)
        middle = value(low + real(index) * step + step / real(2))
        start = round_half_away(here * factor)
        line = round_half_away((there * factor + start) / real(2))
        error = line - round_half_away(middle * factor)
        entries.append(start - round_half_away(error / real(2)))
    entries.append(round_half_away(value(high) * factor))
    table: npt.NDArray[np.int16] = np.clip(entries, INT16_MIN, INT16_MAX).astype("int16")
    return table


def logistic_table() -> npt.NDArray[np.uint16]:
    """Return the logistic function at n / 24 for n from 0 to 256, in Q0.16.

    Each value is corrected by half of the largest error of the straight line to the next value.
    Therefore the table equals sigmoid_table_uint16 in tensorflow/lite/kernels/internal/common.h.
    """
    value = 1 / (1 + np.exp(-np.arange(257) / 24))
    bend = value * (1 - value) * (1 - 2 * value) / 24**2
    table: npt.NDArray[np.uint16] = np.floor(65536 * (value - bend / 16) + 0.5).astype("uint16")
    table[255:] = 65535
    return table


def logistic(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute the logistic function of a 16-bit tensor.

    Source: tensorflow/lite/kernels/internal/reference/integer_ops/logistic.h.
    """
    return look_up_logistic(builder, call, params, "fixed_logistic", 9, (0,))


def tanh(builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams) -> relax.Expr | None:
    """Compute tanh of a 16-bit tensor.

    Source: tensorflow/lite/kernels/internal/reference/integer_ops/tanh.h.
    """
    return look_up_logistic(builder, call, params, "fixed_tanh", 8, (0, 1))


def look_up_logistic(
    builder: RegionBuilder,
    call: tvm.ir.Call,
    params: OutputQuantParams,
    function: str,
    bits: int,
    whole_shifts: tuple[int, ...],
) -> relax.Expr | None:
    """Scale the argument to the table's unit, and interpolate between two entries.

    The table has an entry for every 2^bits units. If the scale is a power of two and its left shift
    is in ``whole_shifts``, the conversion is exact.
    """
    source = builder.find_integers(call.args[0], 16)
    if source is None or (params.dtype, params.scale, params.zero_point) != ("int16", Q15, 0):
        return None
    multiplier, shift = argument_factor(float(source.scale[0]), whole_shifts)
    table = builder.emit_constant("logistic_table", logistic_table())

    def element(indices: Any, data: te.Tensor, table: te.Tensor) -> Integer:
        x = call_fixed_point("fixed_argument", data(*indices).astype("int32"), multiplier, shift)
        position = call_fixed_point("fixed_place", x, bits)
        low, high = (table(position + n).astype("int32") for n in (0, 1))
        return to_storage(call_fixed_point(function, x, low, high), params)

    return builder.emit_elements("interpolate", element, source.data, table, result="interpolated")


def argument_factor(scale: float, whole_shifts: tuple[int, ...]) -> tuple[int, int]:
    """Return the multiplier and right shift that convert a scale to the table's unit.

    Source: tensorflow/lite/kernels/activations.cc, SigmoidPrepare and TanhPrepare.
    """
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5 and 12 + exponent - 1 in whole_shifts:
        return 3 << (12 + exponent - 1), 0
    multiplier, shift = scale * UNITS_PER_ONE, 0
    while multiplier <= 32767 / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    return int(multiplier), shift


def interpolate(x: Integer, table: te.Tensor) -> Integer:
    """Return the value of an interpolation table's function at a 16-bit integer."""
    position = (x >> 7) + STEPS // 2
    low, high = (table(position + n).astype("int32") for n in (0, 1))
    return call_fixed_point("fixed_between", x, low, high)


def lower_by_interpolation(
    builder: RegionBuilder,
    call: tvm.ir.Call,
    params: OutputQuantParams,
    function: Callable[[float], float],
) -> relax.Expr | None:
    """Compute a function of a 16-bit tensor with a separate interpolation table.

    The result is None if the input or the output is not int16 with the zero point 0.
    """
    source = builder.find_integers(call.args[0], 16)
    if source is None or params.dtype != "int16" or params.zero_point != 0:
        return None
    scales = float(source.scale[0]), float(params.scale)
    entries = interpolation_table(function, scales, (0, 0), np.float32)
    table = builder.emit_constant("interpolation_table", entries)

    def element(indices: Any, data: te.Tensor, table: te.Tensor) -> Integer:
        return to_storage(interpolate(data(*indices).astype("int32"), table), params)

    return builder.emit_elements("interpolate", element, source.data, table, result="interpolated")
