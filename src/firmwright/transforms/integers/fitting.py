"""Finds a clamped (sum * multiplier + offset) >> shift that equals a chain of operators.

A chain of monotone operators that ends in a few integers is a step function of the chain's first
sum. A binary search finds the sums at which the steps begin. The search uses the arithmetic of the
operators, including float32. The returned multiplier, offset and shift have equal steps, so both
functions are equal for every sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firmwright.transforms.integers.elementwise_functions import Array

LARGEST_SHIFT = 38
"""The maximum shift in bits. For larger shifts, 8-bit results times 2^shift come close to 2^53,
the limit of exact slopes.
"""

LARGEST_MULTIPLIER = 2**30


@dataclass(frozen=True)
class Affine:
    """(sum * ``multipliers`` + ``offsets``) >> ``shift``.

    Multipliers and offsets are int64 and broadcast to the sums' shape.
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
    """Return integers that equal ``compute`` for all sums from ``low`` to ``high``, or None.

    ``compute`` is monotone for every channel. The results, clamped to ``limits``, are whole
    numbers. ``slope`` is the approximate factor of ``compute``. The result has the smallest shift
    for which all channels have a multiplier and an offset.
    """
    # A range that joins all channels has no axes. Factors per channel, or of shape [1], have axes.
    slope, low, high = np.broadcast_arrays(slope, low, high)
    falls = slope < 0
    first, last = np.where(falls, -high, low), np.where(falls, -low, high)

    def rise(sums: Array) -> Array:
        return compute(np.where(falls, -sums, sums))

    begins = find_begins(rise, first, last, limits)
    for shift in range(LARGEST_SHIFT + 1):
        coefficients = find_offsets(begins, first, last, limits, np.abs(slope), shift)
        if coefficients is not None:
            multipliers, offsets = coefficients
            return Affine(np.where(falls, -multipliers, multipliers), offsets, shift)
    return None


def find_begins(
    rise: Callable[[Array], Array], first: Array, last: Array, limits: tuple[int, int]
) -> Array:
    """Return the first sum per channel with a result of at least limits[0] + 1 … limits[1].

    The sum is ``last`` + 1 if no sum has this result, and ``first`` if all sums have it.
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
    """Return the multipliers nearest to the slope, and offsets near zero that produce the steps.

    None if no offsets produce the steps.
    """
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
