"""Weights for any core: blocks of output channels whose sums stay in registers."""

from __future__ import annotations

import numpy as np

from firmwright.ir.layer import Layer
from firmwright.targets.cpu.forms.blocks import fill_lanes
from firmwright.targets.cpu.forms.form import Packing, Scratch
from firmwright.targets.cpu.forms.layer_numbers import describe_geometry, scale_arrays

PIXELS, CHANNELS = 2, 4
"""Sums at once: with two inputs, a weight and three pointers they fill 14 registers."""

UNROLLED = (4, 3, 2, 1)
"""Taps between two branches."""


def pack_convolution(layer: Layer) -> Packing:
    """Pack (channel block, tap, channel); the last block overlaps the one before it."""
    pixels, channels = min(PIXELS, layer.pixels), min(CHANNELS, layer.out_channels)
    blocks = layer.matrix[fill_lanes(layer.out_channels, channels)]
    arrays = {
        "weights": blocks.transpose(0, 2, 1).astype("int8").reshape(-1),
        **scale_arrays(layer),
    }
    guarded = any(layer.padding)
    if guarded:
        row = layer.kernel[1] * layer.channels
        arrays["border"] = np.full(row, layer.input_zero_point, layer.input_dtype)
    return Packing(
        arrays,
        {**describe_geometry(layer), "words": layer.taps},
        {
            "pointwise": layer.is_pointwise,
            "guarded": guarded,
            "pixels": pixels,
            "channels": channels,
            "unrolled": next(n for n in UNROLLED if layer.taps % n == 0),
        },
        () if layer.is_pointwise else (Scratch("patch", layer.input_dtype, pixels * layer.taps),),
    )
