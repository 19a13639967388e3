"""Packs float32 weights in blocks of output channels, with adjacent weights for each tap.

The channels of a block are the lanes of vectors, or variables if a core has no vectors. Each sum
adds its products in order, so that its bits do not depend on the core. A product is rounded before
the addition. Fused multiplications would produce different bits, which cores without such
instructions cannot reproduce.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import (
    count_row_elements,
    describe_geometry,
    fill_lanes,
)
from firmwright.ir.layer import Array, FloatLayer


class Level(NamedTuple):
    """A set of instructions that a machine may have: the lanes of a vector, and the blocks of sums.

    ``registers`` is the number of registers for sums and for their weights. ``attribute`` makes the
    compiler use the instructions. The C calls this code if :c:func:`find_level` returns at least
    ``least``. Code without an attribute runs on every machine of the family.
    """

    name: str
    lanes: int
    registers: int
    attribute: str = ""
    least: int = 0


class Family(NamedTuple):
    """Cores that share the layout of weights: the channels per block, and the levels.

    If ``in_rows`` is true, the C copies each row of the input once, instead of the taps of each
    pixel.
    """

    block: int
    levels: tuple[Level, ...]
    in_rows: bool = False


X86_64 = Family(
    16,
    (
        Level("avx512", 16, 28, "VNNI ", 2),
        Level("avx2", 8, 14, "AVX2 ", 1),
        Level("sse", 4, 12),
    ),
    in_rows=True,
)
NEON = Family(16, (Level("neon", 4, 28),))
PLAIN = Family(4, (Level("plainly", 1, 20),))

MOST_CHANNELS = 64
"""The maximum output channels per step, with the widest vectors."""


LEAST_WIDTH = 4
"""The minimum number of pixels in a row, so that the C computes each row separately."""


def choose_pixels(level: Level, vectors: int, pixels: int) -> int:
    most = min(pixels, max((level.registers - vectors) // vectors, 1), 12)
    return min(range(most, max(most // 2, 1) - 1, -1), key=lambda n: -(-pixels // n) * n)


def plan_level(level: Level, family: Family, channels: int, pixels: int) -> dict[str, Any]:
    """Return the template variables of a level."""
    blocks = -(-channels // family.block)
    lanes, vectors = level.lanes, min(family.block // level.lanes, 4)
    if lanes == family.block:
        vectors = next(n for n in (4, 3, 2, 1) if blocks % n == 0)
    elif level.registers < 20:
        vectors = 2
    if lanes > 1:
        lanes = min(lanes, max(1 << (channels - 1).bit_length(), 4))
        vectors = min(vectors, -(-channels // lanes))
    return {
        **level._asdict(),
        "lanes": lanes,
        "vectors": vectors,
        "pixels": choose_pixels(level, vectors, pixels),
        "whole": channels % (vectors * lanes) == 0,
    }


def describe_layer(layer: FloatLayer) -> dict[str, Any]:
    return {
        "low": layer.low if np.isfinite(layer.low) else None,
        "high": layer.high if np.isfinite(layer.high) else None,
        "is_adding": layer.is_adding,
    }


def pack_convolution(layer: FloatLayer, family: Family) -> Packing:
    """Pack weights as (channel block, tap, channel)."""
    blocks = -(-layer.out_channels // family.block)
    missing = blocks * family.block - layer.out_channels
    matrix = np.pad(layer.matrix, ((0, missing), (0, 0)))
    weights = matrix.reshape(blocks, family.block, layer.taps).transpose(0, 2, 1)
    pointwise = layer.is_pointwise and not layer.is_planar
    in_rows = family.in_rows and not (pointwise or layer.is_planar)
    in_rows = in_rows and layer.out_width >= LEAST_WIDTH
    pixels = layer.out_width if in_rows else layer.pixels
    levels = [plan_level(v, family, layer.out_channels, pixels) for v in family.levels]
    arrays: dict[str, Array] = {
        "weights": weights.reshape(-1),
        "bias": np.pad(layer.bias, (0, missing)),
    }
    guarded = any(layer.padding) and not (in_rows or layer.is_planar)
    if guarded:
        arrays["border"] = np.zeros(layer.kernel[1] * layer.channels, "float32")
    patch = max(level["pixels"] for level in levels) * layer.taps
    if in_rows:
        patch = count_row_elements(layer)
    return Packing(
        arrays,
        {**describe_geometry(layer), "words": layer.taps},
        {
            **describe_layer(layer),
            "block": family.block,
            "levels": levels,
            "planar": layer.is_planar,
            "pointwise": pointwise,
            "guarded": guarded,
            "in_rows": in_rows,
        },
        () if pointwise else (Scratch("patch", "float32", patch),),
    )


CHANNELS_LAST = Condition("an input with channels last", lambda layer: not layer.is_planar)


def pack_depthwise(layer: FloatLayer, family: Family) -> Packing:
    """Pack weights as (channel block, tap, channel). The last block overlaps the previous one."""
    lanes = next(n for n in (family.block, 8, 4, 1) if n <= min(layer.channels, family.block))
    indices = fill_lanes(layer.channels, lanes)
    levels = [
        {
            **level._asdict(),
            "lanes": min(level.lanes, lanes),
            "vectors": lanes // min(level.lanes, lanes),
        }
        for level in family.levels
    ]
    return Packing(
        {
            "weights": layer.matrix[indices].transpose(0, 2, 1).reshape(-1),
            "bias": layer.bias[indices].reshape(-1),
            "border": np.zeros(lanes, "float32"),
        },
        {**describe_geometry(layer), "words": layer.taps},
        {
            **describe_layer(layer),
            "levels": levels,
            "lanes": lanes,
            "whole": True,
            "kernel_height": layer.kernel[0],
            "kernel_width": layer.kernel[1],
        },
    )
