"""Weights for activations of 16 bits on Arm's DSP extension: two inputs lie in a word as they are.

SXTB16 widens bytes 0 and 2 of four weights, then 1 and 3: the middle ones change places.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.dsp import MOST_STEPS, choose_channels, largest_divisor
from firmwright.devices.cpu.forms.form import Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import describe_record
from firmwright.devices.cpu.forms.wide import scale_arrays
from firmwright.ir.layer import Layer

PIXELS, CHANNELS = 2, 2
"""Sums at once: with four inputs, a word of weights and pointers they fill the registers."""

STEP = 4
"""Taps of a word of weights."""


def pack_convolution(layer: Layer) -> Packing:
    """Pack (pair of channels, four taps, channel, tap); what lies behind them weighs nothing."""
    words = -(-layer.taps // STEP) * STEP
    padded = np.zeros((layer.out_channels, words), np.int64)
    padded[:, : layer.taps] = layer.matrix
    taps = padded.reshape(layer.out_channels, -1, STEP)[:, :, [0, 2, 1, 3]]
    pairs = taps[choose_channels(layer, CHANNELS)].transpose(0, 2, 1, 3)
    arrays = {
        "weights": np.ascontiguousarray(pairs, "int8").view("<i4").reshape(-1),
        **scale_arrays(layer),
    }
    guarded = any(layer.padding)
    if guarded:
        row = layer.kernel[1] * layer.channels
        arrays["border"] = np.full(row, layer.input_zero_point, layer.input_dtype)
    pixels = min(PIXELS, layer.pixels)
    return Packing(
        arrays,
        {**describe_record(layer), "words": words},
        {
            "pointwise": layer.is_pointwise,
            "guarded": guarded,
            "pixels": pixels,
            "unrolled": largest_divisor(words // STEP, MOST_STEPS),
        },
        (Scratch("patch", "int32", pixels * words // 2),),
    )
