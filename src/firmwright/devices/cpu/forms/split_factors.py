"""Splits factors. Two products of 32 bits then replace the high half of a product of 64 bits.

The high half needs five cycles on CV32E40P, but a product of 32 bits needs one. With a factor of
upper · 2^fraction + lower, a result is

    clamp((((sum · lower) >> fraction) + sum · upper + offset) >> shift, low, high)

The factor has fewer bits than the multiplier of a layer. The C uses the factor only if every step
of the results begins at an unchanged sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from firmwright.devices.cpu.forms.requantize import Requantization, bound_sums, make_requantization
from firmwright.ir.layer import Array, Layer

LIMIT = 2**31
"""The limit of the magnitudes of products and of their sums."""

DISTANCES = sorted(range(-8, 9), key=abs)
"""The candidates for a factor, as distances from the integer nearest to the exact factor."""


@dataclass(frozen=True, eq=False)
class SplitFactors:
    """The numbers of each channel, int64. The offsets include the lowest result."""

    fraction: int
    uppers: Array
    lowers: Array
    offsets: Array
    shifts: Array


@lru_cache(maxsize=4)
def find_split_factors(layer: Layer) -> SplitFactors | None:
    """Return the factors of a layer, or None if a channel has no exact factor."""
    scales, limits = make_requantization(layer), bound_sums(layer)
    if (scales.multipliers == 0).any() or layer.high == layer.low:
        return None
    begins = find_begins(layer, scales, limits)
    exact = scales.multipliers / 2.0 ** (30 + scales.shifts + (not scales.one_shift))
    shifts = np.floor(np.log2(LIMIT / (exact * limits + 1024))).astype("int64")
    fraction = int(np.log2(LIMIT / (limits.max() + 1)))
    if shifts.min() < 1 or shifts.max() > 30 or fraction < 1:
        return None
    heights = np.arange(1, layer.high - layer.low + 1) << shifts[:, None]
    solutions = np.zeros((2, layer.out_channels), "int64")
    for distance in DISTANCES:
        factors = np.rint(exact * 2.0 ** (shifts + fraction)).astype("int64") + distance
        offsets, fits = fit_offsets(begins, heights, factors, fraction, limits)
        offsets += layer.low << shifts
        fits &= (factors * limits >> fraction) + np.abs(offsets) + 1 < LIMIT
        fits &= (solutions[0] == 0) & (factors > 0)
        solutions[:, fits] = np.stack([factors, offsets])[:, fits]
    factors, offsets = solutions
    if not factors.all():
        return None
    lowers = factors & (1 << fraction) - 1
    return SplitFactors(fraction, factors >> fraction, lowers, offsets, shifts)


def find_begins(layer: Layer, scales: Requantization, limits: Array) -> Array:
    """Return the smallest sum of each step above the lowest result, (channels, steps)."""
    steps = np.arange(1, layer.high - layer.low + 1)
    needed = (steps << scales.shifts[:, None]) - scales.offsets[:, None]
    if not scales.one_shift:
        needed = 2 * (needed + (needed < 0)) - 1
    begins = -(-(needed << 30) // scales.multipliers[:, None])
    clipped: Array = np.clip(begins, -limits[:, None], limits[:, None] + 1)
    return clipped


def fit_offsets(
    begins: Array, heights: Array, factors: Array, fraction: int, limits: Array
) -> tuple[Array, Array]:
    """Return an offset per channel, and whether every step begins at its sum.

    A step that begins after the largest sum or before the smallest sum does not limit the offset.
    """
    reached, missed = begins <= limits[:, None], begins > -limits[:, None]
    first, last = (sums * factors[:, None] >> fraction for sums in (begins, begins - 1))
    least = np.where(reached, heights - first, -LIMIT).max(1)
    most = np.where(missed, heights - last - 1, LIMIT).min(1)
    return (least + most) >> 1, least <= most
