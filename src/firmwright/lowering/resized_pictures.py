"""Reads a region as a bilinear resize of bytes in TFLite's rounding."""

from __future__ import annotations

from math import gcd

from firmwright.ir.byte_layers import Line, Resize
from firmwright.ir.nodes import Function
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes, reads_parameter
from firmwright.lowering.kernels.quantized_tensor import has_quant_params
from firmwright.lowering.kernels.resize import MODES, ONE, ResizeAxis


def read_resize(function: Function, rounding: str) -> Resize | None:
    """Return the resize that a region's function computes, or None for other functions."""
    operators = ("relax.image.resize2d",)
    found = find_quantized_call(function, rounding, 1, operators) if rounding == "tflite" else None
    if found is None:
        return None
    definitions, call, params = found
    data, attributes = read_bytes(call.args[0], definitions), call.attrs
    if data is None or not has_quant_params(data, params) or dtype_of(data.data) != "int8":
        return None
    if not reads_parameter(data.data, function.params[0], definitions):
        return None
    mode = str(attributes.coordinate_transformation_mode)
    if str(attributes.method) != "linear" or mode not in MODES or str(attributes.layout) != "NHWC":
        return None
    if (params.low, params.high) != (-128, 127):
        return None
    batch, height, width, channels = static_shape(data.data)
    _, out_height, out_width, _ = static_shape(call)
    rows, columns = make_line(height, out_height, mode), make_line(width, out_width, mode)
    return Resize(batch=batch, channels=channels, rows=rows, columns=columns)


def make_line(length: int, extent: int, mode: str) -> Line:
    """Return the neighbors of ``extent`` results, with the smallest unit of their weights."""
    axis = ResizeAxis(length, extent, mode)
    pairs = [axis.find_neighbors(index) for index in range(extent)]
    before = tuple(int(first) for (first, _), _ in pairs)
    after = tuple(int(second) for _, (second, _) in pairs)
    # At a border, both neighbors are one pixel, and the weights can be outside of 0 to 1.
    shares = [
        0 if first == second else int(share)
        for first, second, (_, (_, share)) in zip(before, after, pairs, strict=True)
    ]
    step = gcd(ONE, *shares)
    return Line(length, before, after, tuple(share // step for share in shares), ONE // step)
