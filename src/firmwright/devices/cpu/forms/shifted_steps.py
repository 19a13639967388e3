"""Chooses biases for a shifted layer, so that the offsets of its sums are multiples of a product.

A form adds its offset after the product h = (sum · multiplier) >> 30, whose unit is about the unit
of the sums. The offset in a graph has fractions of this unit. If the bias is larger by b and the
offset is smaller by b products, the results are equal. One of several hundred values of b makes the
offset nearly an integer. Every step then begins at an unchanged sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms.requantize import SUM_LIMIT, bound_sums, find_shifted_begins
from firmwright.ir.layer import Array, Layer
from firmwright.lowering.kernels.float_steps import CANDIDATES, Steps, are_usual

NEAR, NEARBY, FAR = (
    np.array(sorted(range(-count, count + 1), key=abs)) * distance
    for count, distance in ((16, 1), (2048, 1), (2048, 509))
)
"""The changes of a bias to try. Results of 8 bits have up to 255 steps within a unit."""

AT_ONCE = 64
"""The number of biases per vectorized attempt. The arrays of 255 steps fit a cache."""

OTHER_MULTIPLIERS = CANDIDATES[1:128:8].tolist()
"""Distances from the nearest multiplier, for channels that it fits with no bias."""


def choose_biases(layer: Layer) -> Layer:
    """Return the layer with biases that make its offsets integers, if such biases exist."""
    scaling = layer.scaling
    if layer.largest_sum >= SUM_LIMIT or not are_usual(scaling.factors):
        return layer
    fraction, exponent = np.frexp(scaling.factors)
    nearest = np.rint(fraction * 2.0**31).astype("int64")
    shifts = 1 - exponent.astype("int64")
    heights = np.arange(1, layer.high - layer.low + 1)[None] << shifts[:, None]
    limits = bound_sums(layer) + int(FAR.max())
    begins = find_shifted_begins(layer, limits)
    channel_moves = [
        find_move(begins[c : c + 1], heights[c : c + 1], nearest[c], limits[c : c + 1])
        for c in range(layer.out_channels)
    ]
    moves = np.array(channel_moves, "int64")
    offsets = scaling.offsets - moves * scaling.mantissas
    return replace(layer, bias=layer.bias + moves, scaling=replace(scaling, offsets=offsets))


def find_move(begins: Array, heights: Array, nearest: int, limits: Array) -> int:
    """Return the first change of a channel's bias for which an offset fits, or 0."""
    for moves, steps in ((NEAR, [0]), (NEARBY, [0]), (FAR, [0]), (NEARBY, OTHER_MULTIPLIERS)):
        for step in steps:
            for start in range(0, moves.size, AT_ONCE):
                some = moves[start : start + AT_ONCE]
                factors = np.full(some.size, nearest + step)
                low, high = Steps(begins + some[:, None], heights, limits).bound_offsets(factors)
                fits = low <= high
                if fits.any():
                    return int(some[fits.argmax()])
    return 0
