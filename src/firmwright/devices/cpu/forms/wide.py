"""Packs layers with 16-bit activations in TFLite's arithmetic: 8-bit weights, sums up to 64 bits.

The C multiplies a sum by a mantissa and rounds once. The mantissa has 15 bits in convolutions and
31 bits in products. Half a step has no bits below the high 32 bits of sum · mantissa. Therefore a
result is

    (high + 2^(shift - 1)) >> shift

if the sum fits 32 bits. A larger sum is joined from the sums of runs that fit 32 bits.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Packing, Tile
from firmwright.devices.cpu.forms.plain import LARGE_BLOCK, pack_blocks
from firmwright.devices.cpu.forms.plane import crop_kernel
from firmwright.devices.cpu.forms.rv32_depthwise import pack_channels
from firmwright.ir.layer import Array, Layer

LARGEST_RUN = (2**31 - 1) // 2**15
"""The maximum sum of the magnitudes of a run's weights."""

SCALED = Condition(
    "factors of 2^-32 to 1/4",
    lambda layer: layer.scaling.shifts.min() >= 2 and layer.scaling.shifts.max() <= 31,
)

SUMS = Condition("sums below 2^33", lambda layer: layer.largest_sum < 2**33)

NARROW_SUMS = Condition("sums below 2^31", lambda layer: layer.largest_sum < 2**31)


def scale_arrays(layer: Layer) -> dict[str, Array]:
    bias = layer.folded_bias
    return {
        "bias": bias.astype("int32" if NARROW_SUMS.holds(layer) else "int64"),
        "multipliers": layer.scaling.mantissas.astype("int32"),
        "shifts": (layer.scaling.shifts - 1).astype("int8"),
    }


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    return pack_blocks(layer, *tile, scale_arrays(layer), find_run(layer))


def pack_large_convolution(layer: Layer) -> Packing:
    """Pack weights in larger blocks, for cores with 32 registers."""
    block = LARGE_BLOCK
    return pack_blocks(layer, block, block, scale_arrays(layer), find_run(layer), kept=True)


def find_run(layer: Layer) -> int:
    """Return the taps of the longest runs whose sums fit 32 bits, or 0 if all sums fit."""
    if NARROW_SUMS.holds(layer):
        return 0
    magnitudes = np.abs(layer.matrix)

    def fits(run: int) -> bool:
        sums = magnitudes.reshape(layer.out_channels, -1, run).sum(2)
        return bool(sums.max() <= LARGEST_RUN)

    runs = (run for run in range(layer.taps, 0, -1) if layer.taps % run == 0)
    return next(run for run in runs if fits(run))


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    layer = crop_kernel(layer)
    return pack_channels(layer, tile, scale_arrays(layer))
