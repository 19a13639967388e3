"""Integers that scale sums as ONNX Runtime does in float32, proven for every sum of a layer.

Sums that a graph multiplies, moves and shifts by integers of its own have steps, too, but none that
float32 arithmetic could stand in for.

With h = (sum · multiplier) >> 30, a result reaches ``low`` + n where h + offset reaches
n · 2^shift. In float32 it does from some sum on, which a search by halves finds. So a multiplier
fits if there is an offset for which both begin at the same sums, and the offsets that fit lie
between two bounds, one from each side of every step.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from firmwright.ir.layer import Array, Layer, LayerRounding

EXACT_FLOATS = 2**24
"""Integers below it are float32 numbers."""

SUM_LIMIT = 2**29
"""Sums below it can be multiplied by four in 32 bits."""

SMALLEST_EXPONENT, LARGEST_EXPONENT = 1, 21
"""Factors from 2^-22 to 1/2: as for fixed point."""

CANDIDATES = range(-(2**15), 2**15 + 1, 2**7)
"""Multipliers beside the nearest one: farther ones end in other steps of the largest sums."""


def fits_steps(layer: Layer) -> bool:
    """Tell whether a layer whose results have steps of their own can be scaled with integers."""
    shifts = layer.scaling.rounding is LayerRounding.SHIFT
    if layer.largest_sum >= (SUM_LIMIT if shifts else EXACT_FLOATS) or not has_usual_factors(layer):
        return False
    return not shifts or bool(find_steps(layer)[0].all())


def has_usual_factors(layer: Layer) -> bool:
    """Tell whether all factors are from 2^-22 to 1/2."""
    factors = layer.scaling.factors
    exponents = -np.frexp(factors)[1]
    return bool(
        (factors > 0).all()
        and exponents.min() >= SMALLEST_EXPONENT
        and exponents.max() <= LARGEST_EXPONENT
    )


@lru_cache(maxsize=4)
def find_steps(layer: Layer) -> tuple[Array, Array, Array]:
    """Return multipliers, offsets and shifts, int64 (O,).

    A channel without a multiplier that fits has 0, the mantissa of its factor, and the bits that
    the factor is shifted by.
    """
    factors = layer.scaling.factors
    fraction, exponent = np.frexp(factors.astype("float64"))
    nearest = np.floor(fraction * 2.0**31 + 0.5).astype("int64")
    shifts = 1 - exponent.astype("int64")
    limits = np.abs(layer.folded_bias) + np.abs(layer.matrix).sum(1) * largest_input(layer)
    shifted = layer.scaling.rounding is LayerRounding.SHIFT
    begins = find_shifted_begins(layer, limits) if shifted else find_begins(layer, limits)
    heights = np.arange(1, begins.shape[1] + 1)[None] << shifts[:, None]
    multipliers, offsets = np.zeros_like(nearest), np.zeros_like(nearest)
    for step in sorted(CANDIDATES, key=abs):
        left = np.flatnonzero(multipliers == 0)
        if not left.size:
            break
        candidates = nearest[left] + step
        low, high = bound_offsets(begins[left], heights[left], candidates, limits[left])
        found = low <= high
        multipliers[left[found]] = candidates[found]
        offsets[left[found]] = choose_offsets(low, high)[found]
    emulated = multipliers == 0
    offsets[emulated] = (fraction * 2.0**24).astype("int64")[emulated]
    shifts[emulated] = (24 - exponent.astype("int64"))[emulated]
    return multipliers, offsets, shifts


def choose_offsets(low: Array, high: Array) -> Array:
    """Return offsets in the middle, and where nothing bounds one side alone, at the other."""
    open_below, open_above = low <= -(2**31), high >= 2**31
    bound = np.where(open_below, high, low)
    chosen: Array = np.where(open_below != open_above, bound, (low + high) // 2)
    return chosen


def largest_input(layer: Layer) -> int:
    limits = np.iinfo(layer.input_dtype)
    return max(-int(limits.min), int(limits.max))


def find_begins(layer: Layer, limits: Array) -> Array:
    """Return from which sum on each channel's result reaches low + 1, low + 2 … high.

    (O, high - low); ``limits`` + 1 where no sum reaches it.
    """
    results = np.arange(layer.low + 1, layer.high + 1)
    below = np.repeat(-limits[:, None] - 1, results.size, axis=1)
    reached = np.repeat(limits[:, None] + 1, results.size, axis=1)
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        scaled = middle.astype("float32") * layer.scaling.factors[:, None]
        reaches = np.rint(scaled) + np.float32(layer.zero_point) >= results
        reached = np.where(reaches, middle, reached)
        below = np.where(reaches, below, middle)
    return reached


def find_shifted_begins(layer: Layer, limits: Array) -> Array:
    """Return the same for sums that are multiplied, moved and shifted."""
    scaling = layer.scaling
    results = np.arange(layer.low + 1, layer.high + 1)
    steps = results - layer.zero_point
    missing = (steps << scaling.shifts[:, None]) - np.asarray(scaling.offsets)[:, None]
    begins = -(-missing // scaling.mantissas[:, None])
    clipped: Array = np.clip(begins, -limits[:, None], limits[:, None] + 1)
    return clipped


def bound_offsets(
    begins: Array, heights: Array, multipliers: Array, limits: Array
) -> tuple[Array, Array]:
    """Return the smallest and the largest offset with which multipliers have these steps.

    What is reached by no sum, or by every one, bounds the offset from one side only. Where a layer
    has one result only, nothing bounds it.
    """
    factors, ends = multipliers[:, None], limits[:, None]
    low = heights - ((begins * factors) >> 30)
    high = heights - (((begins - 1) * factors) >> 30) - 1
    low = np.where(begins > ends, -(2**40), low)
    high = np.where(begins <= -ends, 2**40, high)
    return low.max(1, initial=-(2**40)), high.min(1, initial=2**40)
