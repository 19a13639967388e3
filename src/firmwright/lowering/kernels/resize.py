"""Resizes pictures of integers like TFLite's reference kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import Integer, call_fixed_point
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    has_quant_params,
)
from firmwright.lowering.kernels.requantization import clamp

FRACTION_BITS = 10
"""The number of fraction bits of positions in the source."""
ONE = 1 << FRACTION_BITS

MODES = ("half_pixel", "align_corners", "asymmetric")
"""The supported transformations of coordinates."""

SUM_TYPES = {"int8": ("int32", "fixed_average"), "int16": ("int64", "fixed_average_wide")}
"""A mapping from element types to the type of a weighted sum, and the function that divides it."""


def resize_bilinear(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Compute the weighted sum of the four neighbors on integers that have 20 fraction bits.

    :func:`resize_bytes` implements the uint8 kernel. Source:
    tensorflow/lite/kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger.
    """
    source, attributes = builder.value(call.args[0]), call.attrs
    mode = str(attributes.coordinate_transformation_mode)
    if not isinstance(source, QuantizedTensor) or not has_quant_params(source, params):
        return None
    dtype = dtype_of(source.data)
    if str(attributes.method) != "linear" or dtype not in {*SUM_TYPES, "uint8"}:
        return None
    if mode not in MODES:
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
        """Return the source positions before and after a result, and their weights."""
        scaled = index * self.step + self.start
        before = te.max(scaled >> FRACTION_BITS, 0)
        after = te.min((scaled + ONE - 1) >> FRACTION_BITS, self.length - 1)
        share = scaled - before * ONE
        return [(before, ONE - share), (after, share)]


EXACT_BITS = 16
"""The maximum number of fraction bits of a weight whose product with 8 bits is exact in float32."""


@dataclass(frozen=True)
class Interpolation:
    """The neighbors of each row or column, and the float32 weight of the later neighbor."""

    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    share: npt.NDArray[np.float32]

    @property
    def fraction_bits(self) -> int:
        """The number of fraction bits of the weights, or 24 if the weights need more bits."""
        scaled = self.share.astype("float64")
        return next((b for b in range(24) if not (scaled * 2**b % 1).any()), 24)


def interpolate(length: int, extent: int, mode: str) -> Interpolation:
    """Return the neighbors of ``extent`` positions among ``length`` elements."""
    aligned = mode == "align_corners" and extent > 1
    scale = np.float32(length) / np.float32(extent)
    if aligned:
        scale = np.float32(length - 1) / np.float32(extent - 1)
    half = np.float32(0.5 if mode == "half_pixel" else 0)
    position = (np.arange(extent, dtype="float32") + half) * scale - half
    before = np.maximum(np.floor(position), 0).astype("int32")
    after = np.minimum(np.ceil(position), length - 1).astype("int32")
    return Interpolation(before, after, position - before.astype("float32"))


def resize_bytes(
    builder: RegionBuilder,
    data: relax.Expr,
    shape: Sequence[int],
    axes: tuple[int, int],
    interpolations: tuple[Interpolation, Interpolation],
) -> relax.Expr:
    """Return uint8 pictures of ``shape``, computed like in resize_bilinear.h.

    The rows and columns are along ``axes``. TFLite computes in float32. If the weights have few
    bits, the float32 sums are exact, so integers produce equal results.
    """
    bits = [p.fraction_bits for p in interpolations]
    whole = sum(bits) <= EXACT_BITS
    kind = "int32" if whole else "float32"
    tables = []
    for name, interpolation, count in zip(("row", "column"), interpolations, bits, strict=True):
        share = interpolation.share * 2**count if whole else interpolation.share
        tables += [
            builder.emit_constant(f"{name}_before", interpolation.before),
            builder.emit_constant(f"{name}_after", interpolation.after),
            builder.emit_constant(f"{name}_share", share.astype(kind)),
        ]
    ones = [tirx.const(2**b if whole else 1, kind) for b in bits]

    def element(indices: Any, source: te.Tensor, *arrays: te.Tensor) -> Any:
        row, column = (
            [(table[0](i), one - table[2](i)), (table[1](i), table[2](i))]
            for table, i, one in (
                (arrays[:3], indices[axes[0]], ones[0]), (arrays[3:], indices[axes[1]], ones[1])
            )
        )  # fmt: skip
        total: Any = None
        for x, horizontal in column:
            for y, vertical in row:
                at = list(indices)
                at[axes[0]], at[axes[1]] = y, x
                term = source(*at).astype(kind) * vertical * horizontal
                total = term if total is None else total + term
        if whole:
            half = 1 << sum(bits) >> 1
            return ((total + half) >> sum(bits)).astype("uint8")
        return (total + tirx.const(0.5, kind)).astype("int32").astype("uint8")

    return builder.emit_elements(
        "resize_bilinear", element, data, *tables, result="resized", shape=shape
    )
