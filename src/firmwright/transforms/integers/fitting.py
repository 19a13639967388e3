"""Finds (sum * multiplier + offset) >> shift, clamped, that equals a chain of operators.

A chain of monotone operators that ends in a few integers is a step function of the sum that it
begins with. The sums at which its steps begin are found by halves, with the operators' own
arithmetic, float32 and all; the multiplier, offset and shift that are returned have the same
steps, so that both are equal for every sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firmwright.transforms.integers.steps import Array

LARGEST_SHIFT = 38
"""Bits: with more, results of 8 bits times 2^shift come near 2^53, which slopes are exact to."""

LARGEST_MULTIPLIER = 2**30


@dataclass(frozen=True)
class Affine:
    """(sum * ``multipliers`` + ``offsets``) >> ``shift``.

    Both arrays are int64 and broadcast to the sums' shape.
    """

    multipliers: Array
    offsets: Array
    shift: int


def fit_affine(
    compute: Callable[[Array], Array],
    slope: Array,
    low: Array,
    high: Array,
    limits: tuple[int, int],
) -> Affine | None:
    """Return integers that equal ``compute`` for all sums from ``low`` to ``high``; None for none.

    ``compute`` is monotone for every channel; its results, clamped to ``limits``, are whole.
    ``slope`` is about what it multiplies by. The smallest shift is taken for which all channels
    have a multiplier and an offset.
    """
    # A range that joins all channels has no axes; factors by channel, or of shape [1], have.
    slope, low, high = np.broadcast_arrays(slope, low, high)
    falls = slope < 0
    first, last = np.where(falls, -high, low), np.where(falls, -low, high)

    def rise(sums: Array) -> Array:
        return compute(np.where(falls, -sums, sums))

    begins = find_begins(rise, first, last, limits)
    for shift in range(LARGEST_SHIFT + 1):
        found = find_offsets(begins, first, last, limits, np.abs(slope), shift)
        if found is not None:
            multipliers, offsets = found
            return Affine(np.where(falls, -multipliers, multipliers), offsets, shift)
    return None


def find_begins(
    rise: Callable[[Array], Array], first: Array, last: Array, limits: tuple[int, int]
) -> Array:
    """Return the first sum whose result reaches limits[0] + 1, + 2 … limits[1], for each channel.

    ``last`` + 1 where none does, ``first`` where all do.
    """
    results = np.arange(limits[0] + 1, limits[1] + 1).reshape(-1, *[1] * first.ndim)
    below = np.broadcast_to(first - 1, (len(results), *first.shape)).astype("int64")
    reached = np.broadcast_to(last + 1, (len(results), *last.shape)).astype("int64")
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        reaches = rise(middle) >= results
        is_open = reached - below > 1
        reached = np.where(is_open & reaches, middle, reached)
        below = np.where(is_open & ~reaches, middle, below)
    return reached


def find_offsets(
    begins: Array, first: Array, last: Array, limits: tuple[int, int], slope: Array, shift: int
) -> tuple[Array, Array] | None:
    """Return the multipliers nearest to the slope, and offsets near zero that give the steps."""
    nearest = np.rint(slope * 2.0**shift)
    if nearest.max() >= LARGEST_MULTIPLIER:
        return None
    multipliers = nearest.astype("int64")
    heights = np.arange(limits[0] + 1, limits[1] + 1).reshape(-1, *[1] * first.ndim) << shift
    least = np.where(begins <= last, heights - multipliers * begins, -(2**62))
    most = np.where(begins > first, heights - 1 - multipliers * (begins - 1), 2**62)
    low, high = least.max(0), most.min(0)
    if (low > high).any():
        return None
    return multipliers, np.clip(0, low, high)
