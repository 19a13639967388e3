"""Computes the numbers that convert a layer's sums to stored integers, exactly and fast.

Let h be the high 32 bits of the 64-bit product (4 · sum) · multiplier. With one shift, a result is

    low + clamp((h + offset) >> shift, 0, high - low)

With two shifts, h is first rounded: r = (h + 1) >> 1, r += r >> 31, and r replaces h. Both methods
equal TFLite's arithmetic for |sum| < 2^29. One shift is enough if a sum is rounded once, or if the
clamp removes all negative results. The two roundings differ only for negative results.

A product in float32 is rounded to 24 bits and then, half to even, to an integer. This result is
also a step function of the sum, with at most 255 steps. Another such function is a graph of
integers that multiplies, moves and shifts a sum. For most channels, a multiplier and an offset have
equal steps (:mod:`firmwright.devices.cpu.forms.float_steps`). The other channels get the multiplier
0, the float's mantissa as offset, and float32 arithmetic that uses only integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmwright.devices.cpu.forms.float_steps import SUM_LIMIT, find_steps, fits_steps
from firmwright.ir.layer import Array, Layer, LayerRounding

LARGEST_SHIFT = 21
"""The maximum shift for which an offset fits 32 bits."""


@dataclass(frozen=True, eq=False)
class Requantization:
    """The numbers of each output channel, int64: ``multipliers``, ``offsets``, ``shifts``."""

    one_shift: bool
    multipliers: Array
    offsets: Array
    shifts: Array


def fits_integers(layer: Layer) -> bool:
    """Return whether a layer's sums can be scaled with integers, for every kind of rounding."""
    if layer.scaling.has_offsets:
        return fits_steps(layer)
    scaling = layer.scaling
    return bool(
        not scaling.has_offsets
        and layer.largest_sum < SUM_LIMIT
        and scaling.shifts.min() >= 1
        and scaling.shifts.max() <= LARGEST_SHIFT
    )


def make_requantization(layer: Layer) -> Requantization:
    """Return the numbers of a layer whose sums can be scaled with integers."""
    scaling = layer.scaling
    if scaling.has_offsets:
        return Requantization(True, *find_steps(layer))
    once = scaling.rounding is LayerRounding.ONCE
    one_shift = once or layer.low >= layer.zero_point
    shifts = scaling.shifts + 1 if one_shift else scaling.shifts
    # Half a step, plus the distance of the zero point from the lowest result, in units of h.
    offsets = (1 + 2 * (layer.zero_point - layer.low)) * (np.int64(1) << (shifts - 1))
    if one_shift and not once:
        offsets = offsets + 1
    return Requantization(one_shift, scaling.mantissas, offsets, shifts)
