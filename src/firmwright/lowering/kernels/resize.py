"""Resizes pictures of integers like TFLite's reference kernel."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.byte_resize import interpolate, resize_bytes
from firmwright.lowering.kernels.fixed_point import Integer, call_fixed_point
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    has_quant_params,
)
from firmwright.lowering.kernels.requantization import clamp

FRACTION_BITS = 10
"""The number of fraction bits of positions in the source, which are fixed-point numbers."""
ONE = 1 << FRACTION_BITS

SUM_TYPES = {"int8": ("int32", "fixed_average"), "int16": ("int64", "fixed_average_wide")}
"""The type of a weighted sum, and the function that divides it, by the type of the elements."""


def resize_bilinear(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute the weighted sum of the four neighbors in integers, with 20 fraction bits.

    Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger. The
    uint8 kernel is in :mod:`firmwright.lowering.kernels.byte_resize`.
    """
    source, attributes = builder.value(call.args[0]), call.attrs
    mode = str(attributes.coordinate_transformation_mode)
    if not isinstance(source, QuantizedTensor) or not has_quant_params(source, params):
        return None
    dtype = dtype_of(source.data)
    if str(attributes.method) != "linear" or dtype not in {*SUM_TYPES, "uint8"}:
        return None
    if mode not in ("half_pixel", "align_corners", "asymmetric"):
        return None
    layout = str(attributes.layout)
    axes = layout.index("H"), layout.index("W")
    lengths = [static_shape(source.data)[a] for a in axes]
    extents = [static_shape(call)[a] for a in axes]
    if dtype == "uint8":
        rows, columns = (interpolate(n, m, mode) for n, m in zip(lengths, extents, strict=True))
        return resize_bytes(builder, source.data, static_shape(call), axes, (rows, columns))
    sums, average = SUM_TYPES[dtype]
    resized_axes = [ResizeAxis(n, m, mode) for n, m in zip(lengths, extents, strict=True)]

    def element(indices: Any, data: te.Tensor) -> Integer:
        rows, columns = (
            p.find_neighbors(indices[a]) for p, a in zip(resized_axes, axes, strict=True)
        )
        total = 0
        for row, vertical in rows:
            for column, horizontal in columns:
                where = list(indices)
                where[axes[0]], where[axes[1]] = row, column
                weight = (vertical * horizontal).astype(sums)
                total += data(*where).astype(sums) * weight
        return clamp(call_fixed_point(average, total, ONE * ONE), params)

    return builder.emit_elements(
        "resize_bilinear", element, source.data, result="resized", shape=static_shape(call)
    )


class ResizeAxis:
    """The positions of ``extent`` results among ``length`` source rows or columns."""

    def __init__(self, length: int, extent: int, mode: str) -> None:
        self.length = length
        self.step = (ONE * length + extent // 2) // extent
        if mode == "align_corners" and extent > 1:
            self.step = (ONE * (length - 1) + (extent - 1) // 2) // (extent - 1)
        self.start = self.step // 2 - ONE // 2 if mode == "half_pixel" else 0

    def find_neighbors(self, index: Integer) -> list[tuple[Integer, Integer]]:
        """Return the source positions before and after a result, each with its weight."""
        scaled = index * self.step + self.start
        before = te.max(scaled >> FRACTION_BITS, 0)
        after = te.min((scaled + ONE - 1) >> FRACTION_BITS, self.length - 1)
        share = scaled - before * ONE
        return [(before, ONE - share), (after, share)]
