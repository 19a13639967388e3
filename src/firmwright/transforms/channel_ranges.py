"""Finds the range of each channel of a quantized network's tensors for all inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import BYTES, is_per_tensor
from firmwright.ir.operators import PERMUTATIONS, read_clip_bounds, relax_names
from firmwright.ir.quant_params import read_quant_params
from firmwright.ir.relax import operator_name, static_shape
from firmwright.transforms.layout_of_constants import apply_layout, find_channel_axis
from firmwright.transforms.quantized_layers import Integers, QuantizedLayer, Reals

ROUNDING = 0.76
"""The maximum distance of a rounded result from the real result, in steps of the output. The
last rounding of a kernel adds half a step. TFLite's earlier rounding adds a quarter of a step,
and the rounding of the factor adds far less.
"""

LARGEST_QUOTIENT = 2.0**30
"""The limit in steps of the output. A number that is farther from zero may wrap around when it
is scaled.
"""

FLOAT32_ERROR = 2.0**-23
"""The error of an average of float32 numbers, per number, relative to the largest number."""


@dataclass(frozen=True)
class Ranges:
    """The smallest and the largest number in each channel along an axis of a tensor.

    The numbers are stored integers, or the real numbers that the integers represent. For real
    numbers, ``reach`` is the largest magnitude before a clip, because kernels scale before the
    clip.
    """

    axis: int
    low: Reals
    high: Reals
    reach: float = 0.0

    @property
    def is_constant(self) -> npt.NDArray[np.bool_]:
        return np.equal(self.low, self.high)


def find_ranges(
    bindings: Sequence[relax.VarBinding], layers: Mapping[relax.Var, QuantizedLayer]
) -> dict[relax.Var, Ranges]:
    """Return the ranges after layers, up to an operator that does not keep channels separate."""
    by_result = {layer.result: layer for layer in layers.values()}
    known_ranges: dict[relax.Var, Ranges] = {}
    for binding in bindings:
        layer = by_result.get(binding.var)
        if layer is not None:
            known_ranges[binding.var] = sum_ranges(layer, known_ranges.get(layer.source))
            continue
        narrow = CHANNELWISE.get(operator_name(binding.value))
        source = known_ranges.get(binding.value.args[0]) if narrow else None
        ranges = narrow(binding.value, source) if narrow and source else None
        if ranges is not None:
            known_ranges[binding.var] = ranges
    return known_ranges


def sum_ranges(layer: QuantizedLayer, source: Ranges | None) -> Ranges:
    """Return the ranges of a layer's sums. The data may have any value if ``source`` is None."""
    low, high = read_integers(layer, source)
    if layer.is_padded:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    rising = np.maximum(layer.weights, 0).sum(axis=2)
    falling = np.minimum(layer.weights, 0).sum(axis=2)
    if layer.is_depthwise:
        least = rising[:, 0] * low + falling[:, 0] * high
        most = rising[:, 0] * high + falling[:, 0] * low
    else:
        least, most = rising @ low + falling @ high, rising @ high + falling @ low
    return make_real(
        layer.result_axis, *(layer.scale * (sums + layer.bias) for sums in (least, most))
    )


def make_real(axis: int, low: Reals, high: Reals) -> Ranges:
    return Ranges(axis, low, high, float(np.maximum(abs(low), abs(high)).max()))


def read_integers(layer: QuantizedLayer, source: Ranges | None) -> tuple[Integers, Integers]:
    """Return the smallest and the largest integer of a layer's data, minus the zero point."""
    if source is None or source.axis != layer.source_axis:
        channels = static_shape(layer.source)[layer.source_axis]
        low, high = (
            np.full(channels, limit - layer.params.zero_point) for limit in layer.params.limits
        )
        return low, high
    low, high = (
        np.rint(reals / layer.params.scale).astype("int64") for reals in (source.low, source.high)
    )
    return low, high


def dequantize_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    if not is_per_tensor(call):
        return None
    params = read_quant_params(call)
    return make_real(
        source.axis, *(params.scale * (i - params.zero_point) for i in (source.low, source.high))
    )


def quantize_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    """Return the ranges of the 8-bit integers, valid for every rounding."""
    if not is_per_tensor(call) or str(call.attrs.out_dtype) not in BYTES:
        return None
    params = read_quant_params(call)
    if source.reach >= LARGEST_QUOTIENT * params.scale:
        return None
    least = np.ceil(source.low / params.scale - ROUNDING) + params.zero_point
    most = np.floor(source.high / params.scale + ROUNDING) + params.zero_point
    return Ranges(source.axis, np.clip(least, *params.limits), np.clip(most, *params.limits))


def clip_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    bounds = read_clip_bounds(call)
    if bounds is None:
        return None
    low, high = (np.clip(numbers, *bounds) for numbers in (source.low, source.high))
    return replace(source, low=low, high=high)


def pool_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    """Return the ranges of a pool, or None.

    Averages that include zeros of the padding have no range. Windows of only padding have no range.
    """
    attrs = call.attrs
    window, padding = [int(k) for k in attrs.pool_size], [int(p) for p in attrs.padding]
    averages = operator_name(call) == "relax.nn.avg_pool2d"
    if int(attrs.ceil_mode) or str(attrs.layout).index("C") != source.axis:
        return None
    if any(p >= k for p, k in zip(padding, window * 2, strict=True)):
        return None
    if averages and any(padding) and attrs.count_include_pad:
        return None
    layout = str(attrs.out_layout) or str(attrs.layout)
    pooled = replace(source, axis=layout.index("C"))
    return widen_average(pooled, prod(window)) if averages else pooled


def mean_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    shape = static_shape(call.args[0])
    stated = range(len(shape)) if call.attrs.axis is None else call.attrs.axis
    axes = {int(a) % len(shape) for a in stated}
    if source.axis in axes:
        return None
    dropped = 0 if call.attrs.keepdims else sum(a < source.axis for a in axes)
    moved = replace(source, axis=source.axis - dropped)
    return widen_average(moved, prod(shape[a] for a in axes))


def widen_average(source: Ranges, count: int) -> Ranges:
    """Widen the ranges by the maximum float32 error of an average of ``count`` numbers."""
    error = count * FLOAT32_ERROR * np.maximum(abs(source.low), abs(source.high))
    return replace(source, low=source.low - error, high=source.high + error)


def move_ranges(call: tvm.ir.Call, source: Ranges) -> Ranges | None:
    """Return the ranges after a layout operator, or None if the channel axis does not remain."""
    shape, channels = static_shape(call.args[0]), source.low.size
    along = [-1 if axis == source.axis else 1 for axis in range(len(shape))]
    numbers = np.broadcast_to(np.arange(channels).reshape(along), shape)
    axis = find_channel_axis(apply_layout(numbers, call), channels)
    return None if axis is None else replace(source, axis=axis)


CHANNELWISE: dict[str, Callable[[tvm.ir.Call, Ranges], Ranges | None]] = {
    "relax.dequantize": dequantize_ranges,
    "relax.quantize": quantize_ranges,
    "relax.mean": mean_ranges,
    **dict.fromkeys(relax_names("nn.avg_pool2d nn.max_pool2d"), pool_ranges),
    **dict.fromkeys(relax_names("clip maximum minimum nn.relu"), clip_ranges),
    **dict.fromkeys(PERMUTATIONS, move_ranges),
}
"""Operators whose result in each channel depends only on this channel of their first operand."""
