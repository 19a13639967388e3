"""The fewest instructions that make a layer's stored integers of its sums, exactly.

With h the high 32 bits of the 64-bit product (4 · sum) · multiplier, a result is

    low + clamp((h + offset) >> shift, 0, high - low)

in one shift; in two, h is first rounded: r = (h + 1) >> 1, r += r >> 31, and takes its place. Both
equal TFLite's arithmetic for |sum| < 2^29. One shift is enough where a sum is rounded once, and
where the clamp removes all negative results: the two roundings differ for those alone.

A product in float32 is rounded to 24 bits and then, half to even, to a whole number. That too is a
step function of the sum with at most 255 steps, and so is a sum that a graph of integers
multiplies, moves and shifts. For most channels there is a multiplier and an
offset that have the same steps (:mod:`firmwright.devices.cpu.forms.float_steps`). The others get
the multiplier 0, the float's mantissa as offset, and float32 arithmetic done with integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmwright.devices.cpu.forms.float_steps import SUM_LIMIT, find_steps, fits_steps
from firmwright.ir.layer import Array, Layer, LayerRounding

LARGEST_SHIFT = 21
"""Bits: with more, an offset would not fit 32 bits."""


@dataclass(frozen=True, eq=False)
class Requantization:
    """Numbers for each output channel, int64: ``multipliers``, ``offsets``, ``shifts``."""

    one_shift: bool
    multipliers: Array
    offsets: Array
    shifts: Array


def fits_fixed_point(layer: Layer) -> bool:
    """Tell whether a layer's sums are scaled in fixed point, and can be here."""
    scaling = layer.scaling
    return bool(
        not scaling.has_own_steps
        and layer.largest_sum < SUM_LIMIT
        and scaling.shifts.min() >= 1
        and scaling.shifts.max() <= LARGEST_SHIFT
    )


def fits_integers(layer: Layer) -> bool:
    """Tell whether a layer's sums can be scaled with integers, whichever way they are rounded."""
    if layer.scaling.has_own_steps:
        return fits_steps(layer)
    return fits_fixed_point(layer)


def make_requantization(layer: Layer) -> Requantization:
    """Return the numbers of a layer that fits."""
    scaling = layer.scaling
    if scaling.has_own_steps:
        return Requantization(True, *find_steps(layer))
    once = scaling.rounding is LayerRounding.ONCE
    one_shift = once or layer.low >= layer.zero_point
    shifts = scaling.shifts + 1 if one_shift else scaling.shifts
    # Half a step, and the distance of zero from the lowest result, in units of h.
    offsets = (1 + 2 * (layer.zero_point - layer.low)) * (np.int64(1) << (shifts - 1))
    if one_shift and not once:
        offsets = offsets + 1
    return Requantization(one_shift, scaling.mantissas, offsets, shifts)
