"""Computes functions of one 8-bit value as tables of 256 entries at build time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.relax import Constant, constant_array, dtype_of, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    Value,
    has_quant_params,
)
from firmwright.lowering.kernels.real_functions import can_evaluate, evaluate

DivideAndRound = Callable[[npt.NDArray[np.float32], np.float32], npt.NDArray[np.float32]]
"""Converts real numbers and a scale to whole numbers of steps."""


def lower_chain_by_table(
    builder: RegionBuilder, argument: relax.Expr, params: OutputQuantParams, whole: DivideAndRound
) -> relax.Expr | None:
    """Look up the result of a chain of elementwise operators on one stored 8-bit tensor.

    The result is None if there is no such chain. The table contains the chain's float32 results
    (see :mod:`firmwright.lowering.kernels.real_functions`). ``whole`` converts these results to
    whole steps.
    """
    sources = find_chain_sources(builder, argument)
    if not sources or not all(s.data.same_as(sources[0].data) for s in sources):
        return None
    source = sources[0]
    values = evaluate_chain(builder, argument)
    if values.size != 256 or static_shape(argument) != static_shape(source.data):
        return None
    with np.errstate(all="ignore"):
        return look_up(builder, source, to_storage_array(whole(values, params.scale), params))


def find_chain_sources(builder: RegionBuilder, argument: relax.Expr) -> list[QuantizedTensor]:
    """Return the 8-bit tensors at the chain's start, or [] if the chain also has other inputs."""
    value = builder.value(argument)
    if isinstance(value, QuantizedTensor):
        stored = value.is_per_tensor and value.width == 8 and not isinstance(value.data, Constant)
        return [value] if stored else []
    call = builder.definitions.get(argument)
    if call is None or not can_evaluate(call):
        return []
    tensors = []
    for part in call.args:
        if scalar_value(builder, part) is None:
            sources = find_chain_sources(builder, part)
            if not sources:
                return []
            tensors += sources
    return tensors


def evaluate_chain(builder: RegionBuilder, argument: relax.Expr) -> npt.NDArray[Any]:
    """Return the chain's result for each of the 256 integers, smallest first."""
    constant = scalar_value(builder, argument)
    if constant is not None:
        return constant
    value = builder.value(argument)
    if isinstance(value, QuantizedTensor):
        return real_values(value)
    call = builder.definitions[argument]
    return evaluate(call, [evaluate_chain(builder, a) for a in call.args])


def scalar_value(builder: RegionBuilder, argument: relax.Expr) -> npt.NDArray[Any] | None:
    """Return a constant scalar argument as an array of one element, or None for other arguments."""
    value = builder.value(argument)
    number = getattr(value, "value", None)
    if isinstance(number, int | float):
        return np.array([number], "float32")
    constant = constant_values(value)
    return constant.reshape(-1) if constant is not None and constant.size == 1 else None


def constant_values(value: Value) -> npt.NDArray[Any] | None:
    """Return a constant's numbers, in float32 if the constant is quantized per tensor.

    The result is None for values that are not constant, and for constants that are quantized per
    channel.
    """
    if not isinstance(value, QuantizedTensor):
        return constant_array(value) if isinstance(value, Constant) else None
    if not (value.is_per_tensor and isinstance(value.data, Constant)):
        return None
    centered = constant_array(value.data).astype("int64") - value.zero_point[0]
    return np.asarray(centered.astype("float32") * np.float32(value.scale[0]))


def real_values(source: QuantizedTensor) -> npt.NDArray[np.float32]:
    """Return scale · (integer - zero point) in float32 for all 256 integers, smallest first."""
    centered = (all_integers(source) - source.zero_point[0]).astype("float32")
    return np.asarray(np.float32(source.scale[0]) * centered)


def all_integers(source: QuantizedTensor) -> npt.NDArray[np.int64]:
    low, high = find_integer_limits(dtype_of(source.data))
    return np.arange(low, high + 1)


def to_storage_array(
    nearest: npt.NDArray[np.float32], params: OutputQuantParams
) -> npt.NDArray[Any]:
    """Add the zero point to whole numbers and clamp them. NaN becomes the lowest integer."""
    whole = np.nan_to_num(nearest, nan=-np.inf) + params.zero_point
    table: npt.NDArray[Any] = np.clip(whole, params.low, params.high)
    return table.astype(params.dtype)


def round_half_away(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Round to whole numbers, and halves away from zero, like C's roundf."""
    whole = np.trunc(x)
    away: npt.NDArray[np.float32] = whole + np.copysign(np.abs(x - whole) >= 0.5, x)
    return away.astype(x.dtype)


def concatenate(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Join parts, after tables have converted the parts with other quantization parameters.

    Source: tensorflow/lite/kernels/internal/reference/concatenation.h, ConcatenationWithScaling.
    """
    parts = []
    for field in call.args[0].fields:
        source = builder.find_integers(field, 8)
        if source is None:
            return None
        parts.append(
            source.data
            if has_quant_params(source, params)
            else rescale_by_table(builder, source, params)
        )
    return builder.emit_like(call, relax.Tuple(parts))


def rescale_by_table(
    builder: RegionBuilder, source: QuantizedTensor, params: OutputQuantParams
) -> relax.Expr:
    factor = np.float32(source.scale[0]) * (np.float32(1) / params.scale)
    bias = np.float32(-source.zero_point[0]) * factor
    real = all_integers(source).astype("float32") * factor + bias
    nearest = np.trunc(real + np.copysign(np.float32(0.5), real))
    return look_up(builder, source, to_storage_array(nearest, params))


def lower_by_table(
    builder: RegionBuilder,
    source: QuantizedTensor,
    params: OutputQuantParams,
    function: Callable[[int], int],
) -> relax.Expr:
    """Look up a function of data - zero point.

    ``function`` returns an integer minus the output's zero point.
    """
    centered = all_integers(source) - source.zero_point[0]
    results = np.array([function(int(x)) for x in centered])
    entries = np.clip(results + params.zero_point, params.low, params.high).astype(params.dtype)
    return look_up(builder, source, entries)


def look_up(
    builder: RegionBuilder, source: QuantizedTensor, entries: npt.NDArray[Any]
) -> relax.Expr:
    """Look up the source's integers in a table.

    The first entry belongs to the smallest integer of the source's type.
    """
    table = builder.emit_constant("table", entries)
    first, _ = find_integer_limits(dtype_of(source.data))

    def element(indices: Any, data: te.Tensor, table: te.Tensor) -> Any:
        return table(data(*indices).astype("int32") - first)

    return builder.emit_elements("look_up", element, source.data, table, result="looked_up")
