"""Normalizes the elements of an image or a row."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te, tirx, topi

from firmwright.ir.chains import INT32_LIMIT
from firmwright.ir.operators import short_name
from firmwright.ir.relax import Constant, constant_array, operator_name, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer
from firmwright.lowering.kernels.float_steps import EXACT_FLOATS
from firmwright.lowering.kernels.quantized_tensor import QuantizedTensor, Value

LARGEST_EPSILON = 2.0**100
"""A limit far below the largest float32."""


def instance_norm(builder: relax.BlockBuilder, call: relax.Expr) -> relax.Expr:
    """Normalize each channel, and subtract the mean before squaring.

    TVM subtracts the square of the mean from the mean of the squares. This subtraction loses most
    digits of the variance if the mean is much larger than the variance.
    """
    shape, attrs = static_shape(call), call.attrs
    axes = [int(axis) % len(shape) for axis in attrs.axes]
    count = float(prod(shape[axis] for axis in axes))
    channel = int(attrs.channel_axis) % len(shape)
    by_channel = [length if i == channel else 1 for i, length in enumerate(shape)]

    def normalize(data: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
        centered = data - topi.sum(data, axes, keepdims=True) / count
        variance = topi.sum(centered * centered, axes, keepdims=True) / count
        result = centered / topi.sqrt(variance + float(attrs.epsilon))
        if attrs.scale:
            result = result * topi.reshape(scale, by_channel)
        return result + topi.reshape(bias, by_channel) if attrs.center else result

    return builder.call_te(normalize, *call.args, primfunc_name_hint="instance_norm")


def normalize_rows(builder: RegionBuilder, call: tvm.ir.Call) -> relax.Expr | None:
    """Normalize 8-bit integers over the last axes or per channel.

    The results are float32. Let q be one of n integers minus the zero point, S the sum of all q,
    and Q the sum of the squares. Then an element is (n·q - S) / sqrt(n·Q - S² + n²·epsilon /
    scale²). All computations before the root are exact integers, and each row needs one root. The
    separate float32 operators need a root and three divisions per element.
    """
    source = builder.find_integers(call.args[0], 8)
    gain, bias = (dequantize_constant(builder.value(a)) for a in call.args[1:])
    shape, attrs = static_shape(call), call.attrs
    by_channel = operator_name(call) == "relax.nn.instance_norm"
    axes = sorted(int(a) % len(shape) for a in attrs.axes)
    if by_channel and axes[0] == 0 and shape[0] == 1:  # PyTorch includes the batch axis
        axes = axes[1:]
    rows = len(shape) - len(axes)
    extents = shape[rows:]
    is_last = axes == [*range(rows, len(shape))] and (not by_channel or rows == 2)
    if source is None or gain is None or bias is None or not (is_last and rows):
        return None
    count, zero_point = prod(extents), int(source.zero_point[0])
    epsilon = float(attrs.epsilon) * (count / float(source.scale[0])) ** 2
    fits = 2 * source.largest * count < EXACT_FLOATS and source.largest**2 * count < INT32_LIMIT
    if not (fits and epsilon < LARGEST_EPSILON and attrs.center and attrs.scale):
        return None

    def compute(data: te.Tensor, gain: te.Tensor, bias: te.Tensor) -> te.Tensor:
        def center(*indices: Integer) -> Integer:
            return data(*indices).astype("int32") - zero_point

        def add_up(name: str, term: Callable[[Integer], Integer]) -> te.Tensor:
            axes = [te.reduce_axis((0, extent)) for extent in extents]
            return te.compute(
                shape[:rows], lambda *row: te.sum(term(center(*row, *axes)), axis=axes), name=name
            )

        def invert_root(*row: Integer) -> Integer:
            total, square = (sums(*row).astype("int64") for sums in (totals, squares))
            spread = (square * count - total * total).astype("float32")
            return real(1.0) / te.sqrt(spread + real(epsilon))

        def element(*indices: Integer) -> Integer:
            row, position = indices[:rows], indices[1:2] if by_channel else indices[rows:]
            deviation = (center(*indices) * count - totals(*row)).astype("float32")
            return deviation * factors(*row) * gain(*position) + bias(*position)

        totals, squares = add_up("totals", lambda q: q), add_up("squares", lambda q: q * q)
        factors = te.compute(shape[:rows], invert_root, name="factors")
        return te.compute(shape, element, name="normalized")

    tables = [builder.emit_constant(n, a) for n, a in (("gain", gain), ("bias", bias))]
    return builder.emit_te(short_name(call), compute, source.data, *tables)


def real(number: float) -> Integer:
    return tirx.const(number, "float32")


def dequantize_constant(value: Value) -> npt.NDArray[Any] | None:
    """Return a constant's dequantized numbers in float32, or None for other values."""
    if not isinstance(value, QuantizedTensor):
        return constant_array(value) if isinstance(value, Constant) else None
    if not isinstance(value.data, Constant):
        return None
    points, scales = (value.reshape_for_broadcast(v) for v in (value.zero_point, value.scale))
    centered = constant_array(value.data).astype("int64") - points
    return np.asarray(centered.astype("float32") * scales.astype("float32"))
