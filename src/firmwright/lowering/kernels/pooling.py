"""Computes averages and sums of integers like TFLite."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from firmwright.ir.chains import INT32_LIMIT
from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.relax import dtype_of, operator_name, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    Integer,
    Multipliers,
    apply_scale,
    apply_scale_once,
    call_fixed_point,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    has_quant_params,
)
from firmwright.lowering.kernels.requantization import clamp, immediates, to_storage
from firmwright.lowering.kernels.tables import round_half_away
from firmwright.lowering.kernels.windows import sum_windows, windows_of

LARGEST_COUNT = 4096
"""The maximum number of addends for which code generation compares all results of a sum."""


def average_pool(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Average each window, in any layout.

    If the input and output parameters are equal, stored integers are averaged without the padding,
    like in TFLite (tensorflow/lite/kernels/internal/reference/integer_ops/pooling.h). TFLite
    supports no other parameters. For other parameters, the centered sum is scaled like in TFLite's
    MEAN.
    """
    source = builder.value(call.args[0])
    windows = windows_of(call)
    if not isinstance(source, QuantizedTensor) or not source.is_per_tensor:
        return None
    taps = prod(w.size for w in windows)
    if not windows or source.largest * taps >= INT32_LIMIT:
        return None
    shape = static_shape(call)

    def count(indices: tuple[Any, ...]) -> Integer:
        return prod((w.count(indices[w.axis]) for w in windows), start=1)

    def compute_from_stored(data: te.Tensor) -> te.Tensor:
        sums = sum_windows(data, windows, shape, 0)

        def element(*indices: Any) -> Integer:
            return clamp(call_fixed_point("fixed_average", sums(*indices), count(indices)), params)

        return te.compute(shape, element, name="average")

    if has_quant_params(source, params) and not any(any(w.counted_padding) for w in windows):
        return builder.emit_te("average_pool", compute_from_stored, source.data)

    factors = to_fixed_point(source.scale / np.float64(params.scale))
    by_count = [divide_multiplier(factors, n) for n in range(1, taps + 1)]
    largest = source.largest * taps << max(int(f.left_shift[0]) for f in by_count)

    def compute_from_centered(data: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        sums = sum_windows(data, windows, shape, int(source.zero_point[0]))

        def element(*indices: Any) -> Integer:
            if tables:
                mantissa, left, right = (t(count(indices) - 1) for t in tables)
            else:
                mantissa, left, right = immediates(by_count[-1])
            return to_storage(apply_scale(sums(*indices), mantissa, left, right, largest), params)

        return te.compute(shape, element, name="average")

    arrays = {} if all(w.is_uniform for w in windows) else {
        "multipliers": np.concatenate([f.mantissa for f in by_count]),
        "left_shifts": np.concatenate([f.left_shift for f in by_count]),
        "right_shifts": np.concatenate([f.right_shift for f in by_count]),
    }  # fmt: skip
    tables = [builder.emit_constant(name, array) for name, array in arrays.items()]
    return builder.emit_te("average_pool", compute_from_centered, source.data, *tables)


def reduce_mean(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Sum centered integers, then multiply by the quotient of the scales divided by the count.

    The mantissa is divided as an integer, after a left shift by the bits that the division removes.
    Source: LiteRT's kernels/reduce.cc and internal/reference/integer_ops/mean.h. According to a
    comparison of results, LiteRT 2.3.0 runs this version of the kernel.
    """
    axes = [int(a) for a in call.attrs.axis]
    return lower_reduction(builder, call, params, prod(static_shape(call.args[0])[a] for a in axes))


def reduce_sum(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Scale the sum of stored integers in float32, or in integers if all results are equal.

    Source: tensorflow/lite/kernels/internal/optimized/reduce.h, QuantizedMeanOrSum. (The reference
    kernel of LiteRT 2.3.0 reads int8 as uint8.)
    """
    source = builder.find_integers(call.args[0], 8, 16)
    if source is None:
        return lower_reduction(builder, call, params, 1)
    lengths = static_shape(source.data)
    axes = sorted({int(a) % len(lengths) for a in call.attrs.axis})
    count, zero_point = prod(lengths[a] for a in axes), int(source.zero_point[0])
    if source.largest * count >= INT32_LIMIT:
        return None
    scale = np.float32(source.scale[0]) / params.scale
    bias = np.float32(-zero_point) * scale * np.float32(count)
    factors = to_fixed_point(source.scale / np.float64(params.scale))
    ties = find_ties(source, factors, count, scale, bias)

    def compute(data: te.Tensor) -> te.Tensor:
        extents = static_shape(call)
        shift = zero_point if ties else 0
        sums = sum_axes(data, extents, axes, bool(call.attrs.keepdims), shift)

        def element(*indices: Any) -> Integer:
            total = sums(*indices)
            if ties:
                scaled = apply_scale_once(total, *immediates(factors), ties)
            else:
                constants = (tirx.const(float(number), "float32") for number in (scale, bias))
                factor, added = constants
                real = total.astype("float32") * factor + added
                scaled = tirx.call_pure_extern("float32", "roundf", real).astype("int32")
            return to_storage(scaled, params)

        return te.compute(extents, element, name="reduced")

    return builder.emit_te("sum", compute, source.data)


def find_ties(
    source: QuantizedTensor, factors: Multipliers, count: int, scale: np.float32, bias: np.float32
) -> str:
    """Return the direction of ties for which integers equal float32 for all sums, else ''."""
    if count > LARGEST_COUNT or source.width > 8:
        return ""
    ends = find_integer_limits(dtype_of(source.data))
    totals = np.arange(count * ends[0], count * ends[1] + 1)
    real = totals.astype("float32") * scale + bias
    centered = totals - count * int(source.zero_point[0])
    mantissa, bits = int(factors.mantissa[0]), 31 - int(factors.shift[0])
    if not 1 <= bits <= 62:
        return ""
    products = np.abs(centered) * mantissa
    for ties in ("up", "down"):
        whole = (products + (1 << bits - 1) - (ties == "down")) >> bits
        if np.array_equal(np.sign(centered) * whole, round_half_away(real).astype("int64")):
            return ties
    return ""


def lower_reduction(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams, divisor: int
) -> relax.Expr | None:
    """Return the sum over the operator's axes, divided and quantized."""
    source = builder.value(call.args[0])
    if not isinstance(source, QuantizedTensor) or not source.is_per_tensor:
        return None
    shape = static_shape(source.data)
    axes = sorted({int(a) % len(shape) for a in call.attrs.axis})
    largest = source.largest * prod(shape[a] for a in axes)
    if largest >= INT32_LIMIT:
        return None
    factors = divide_multiplier(to_fixed_point(source.scale / np.float64(params.scale)), divisor)
    zero_point, keep = int(source.zero_point[0]), bool(call.attrs.keepdims)

    def compute(data: te.Tensor) -> te.Tensor:
        extents = static_shape(call)
        sums = sum_axes(data, extents, axes, keep, zero_point)
        shifted = largest << int(factors.left_shift[0])

        def element(*indices: Any) -> Integer:
            return to_storage(apply_scale(sums(*indices), *immediates(factors), shifted), params)

        return te.compute(extents, element, name="reduced")

    return builder.emit_te(operator_name(call).removeprefix("relax."), compute, source.data)


def divide_multiplier(factors: Multipliers, count: int) -> Multipliers:
    shift = int(factors.shift[0])
    left = max(0, min(count.bit_length() - 1, 32, 31 + shift))
    mantissa = (int(factors.mantissa[0]) << left) // count
    return Multipliers(np.array([mantissa], "int32"), np.array([shift - left], "int8"))


def sum_axes(
    data: te.Tensor, extents: tuple[int, ...], axes: list[int], keep: bool, zero_point: int
) -> te.Tensor:
    """Sum data - zero point over axes. If ``keep`` is true, these axes stay with length 1."""
    loops = {a: te.reduce_axis((0, data.shape[a])) for a in axes}

    def term(*kept: Any) -> Integer:
        kept_indices = iter(kept[a] for a in range(len(kept)) if not (keep and a in loops))
        where = [loops[a] if a in loops else next(kept_indices) for a in range(len(data.shape))]
        return data(*where).astype("int32") - zero_point

    return te.compute(extents, lambda *i: te.sum(term(*i), axis=list(loops.values())), name="total")
