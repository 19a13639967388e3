"""Resizes pictures of uint8 like TFLite's reference kernel, which computes in float32.

Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h, ResizeBilinear. If the weights
have few bits, the float32 sums are exact, so integers produce equal results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx

from firmwright.lowering.kernels.builder import RegionBuilder

EXACT_BITS = 16
"""The maximum fraction bits of a weight with which a product with 8 bits is exact in float32."""


@dataclass(frozen=True)
class Interpolation:
    """The neighbors of each row or column, and the float32 weight of the later neighbor."""

    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]
    share: npt.NDArray[np.float32]

    @property
    def fraction_bits(self) -> int:
        """The number of fraction bits of the weights; 24 if the weights need more bits."""
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
    """Return uint8 pictures of ``shape``; the rows and columns are along ``axes``."""
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
