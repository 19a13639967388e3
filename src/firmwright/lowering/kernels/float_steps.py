"""Finds integers that scale sums like ONNX Runtime in float32, and proves every result.

Some graphs multiply, move and shift sums by integers. The results of such sums also have steps, but
float32 arithmetic cannot replace the integers.

With h = (sum · multiplier) >> 30, a result is at least ``low`` + n if h + offset is at least n ·
2^shift. A binary search finds the sum at which this step begins in float32. A multiplier fits if
one offset makes all integer steps begin at the sums of the float32 steps. Each step bounds the
possible offsets from both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmwright.ir.layer import Array

EXACT_FLOATS = 2**24
"""Float32 represents all integers below this limit exactly."""

SMALLEST_EXPONENT, LARGEST_EXPONENT = 1, 21
"""The exponents of factors from 2^-22 to 1/2, as in fixed point."""

CANDIDATES = np.array(sorted(range(-(2**15), 2**15 + 1, 2**7), key=abs))
"""The candidates for a multiplier, as distances from the nearest multiplier.

Other multipliers change the steps of large sums.
"""

LOWEST, HIGHEST = -(2**40), 2**40
"""Numbers below and above all bounds of offsets."""


@dataclass(frozen=True, eq=False)
class FloatScaling:
    """Sums multiplied by ``factors`` in float32, rounded half to even, moved and clamped.

    ``factors`` and ``limits`` have one element per channel. The magnitude of a channel's sums is at
    most the channel's limit. Results are from ``low`` to ``high``.
    """

    factors: Array
    limits: Array
    zero_point: int
    low: int
    high: int

    @property
    def fits(self) -> bool:
        return bool(self.limits.max() < EXACT_FLOATS) and are_usual(self.factors)


def are_usual(factors: Array) -> bool:
    """Return whether all factors are from 2^-22 to 1/2."""
    exponents = -np.frexp(factors)[1]
    return bool(
        (factors > 0).all()
        and exponents.min() >= SMALLEST_EXPONENT
        and exponents.max() <= LARGEST_EXPONENT
    )


def find_steps(scaling: FloatScaling) -> tuple[Array, Array, Array]:
    """Return the int64 (O,) multipliers, offsets and shifts of :func:`fit_steps` for the sums."""
    return fit_steps(find_begins(scaling), scaling.factors, scaling.limits)


def fit_steps(begins: Array, factors: Array, limits: Array) -> tuple[Array, Array, Array]:
    """Return int64 (O,) multipliers, offsets and shifts whose steps begin at these sums.

    ``begins`` is (O, steps). If no multiplier fits a channel, the channel has the multiplier 0, and
    the mantissa and the shift of its factor.
    """
    fraction, exponent = np.frexp(factors.astype("float64"))
    nearest = np.floor(fraction * 2.0**31 + 0.5).astype("int64")
    shifts = 1 - exponent.astype("int64")
    steps = Steps(begins, np.arange(1, begins.shape[1] + 1)[None] << shifts[:, None], limits)
    multipliers, offsets = find_multipliers(steps, nearest)
    emulated = multipliers == 0
    offsets[emulated] = (fraction * 2.0**24).astype("int64")[emulated]
    shifts[emulated] = (24 - exponent.astype("int64"))[emulated]
    return multipliers, offsets, shifts


@dataclass(frozen=True, eq=False)
class Steps:
    """The sum at which each step of a channel begins, and the value of h + offset at that sum.

    The two arrays are (O, steps). The magnitude of a channel's sums is at most the channel's
    element of ``limits`` (O,).
    """

    begins: Array
    heights: Array
    limits: Array

    def select(self, channels: Array, step: Array | None = None) -> Steps:
        """Return these channels with all their steps, or with one step per channel."""
        if step is None:
            return Steps(self.begins[channels], self.heights[channels], self.limits[channels])
        at = channels, step
        return Steps(self.begins[at][:, None], self.heights[at][:, None], self.limits[channels])

    def bound_offsets(self, multipliers: Array) -> tuple[Array, Array]:
        """Return the smallest and the largest offset (O,) for which multipliers fit all steps.

        The bounds of a channel with only one result are LOWEST and HIGHEST.
        """
        low, high = self.bound_each(multipliers[:, None])
        return low.max(1, initial=LOWEST), high.min(1, initial=HIGHEST)

    def bound_each(self, multipliers: Array) -> tuple[Array, Array]:
        """Return the bounds of the offset per step.

        ``multipliers`` are (O, 1), or (O, n) for one step per channel. If no sum or every sum
        reaches a step, the step bounds the offset only from one side.
        """
        ends = self.limits[:, None]
        low = self.heights - ((self.begins * multipliers) >> 30)
        high = self.heights - (((self.begins - 1) * multipliers) >> 30) - 1
        return (
            np.where(self.begins > ends, LOWEST, low),
            np.where(self.begins <= -ends, HIGHEST, high),
        )


def find_multipliers(steps: Steps, nearest: Array) -> tuple[Array, Array]:
    """Return the nearest multiplier that fits all steps of a channel, and the offset.

    The multiplier and the offset are 0 if no multiplier fits. If a multiplier does not fit two of
    the steps, these steps also exclude most other multipliers. Therefore the function tries only
    few multipliers.
    """
    multipliers, offsets = np.zeros_like(nearest), np.zeros_like(nearest)
    tried, left = nearest, np.arange(nearest.size)
    candidates = low = high = np.zeros((0, 0), "int64")
    while left.size:
        selected = steps.select(left)
        lowest, highest = selected.bound_offsets(tried)
        fits = lowest <= highest
        multipliers[left[fits]] = tried[fits]
        offsets[left[fits]] = choose_offsets(lowest, highest)[fits]
        if not candidates.size:
            candidates = nearest[left, None] + CANDIDATES
            low, high = np.full_like(candidates, LOWEST), np.full_like(candidates, HIGHEST)
        left, candidates, low, high = (each[~fits] for each in (left, candidates, low, high))
        if not left.size:
            break
        lows, highs = (each[~fits] for each in selected.bound_each(tried[:, None]))
        low = np.maximum(low, steps.select(left, lows.argmax(1)).bound_each(candidates)[0])
        high = np.minimum(high, steps.select(left, highs.argmin(1)).bound_each(candidates)[1])
        possible = (low <= high).any(1)
        left, candidates, low, high = (each[possible] for each in (left, candidates, low, high))
        tried = candidates[np.arange(left.size), (low <= high).argmax(1)]
    return multipliers, offsets


def choose_offsets(low: Array, high: Array) -> Array:
    """Return offsets halfway between the bounds, or the only bound."""
    open_below, open_above = low <= -(2**31), high >= 2**31
    bound = np.where(open_below, high, low)
    chosen: Array = np.where(open_below != open_above, bound, (low + high) // 2)
    return chosen


def find_begins(scaling: FloatScaling) -> Array:
    """Return the sums from which each channel's result is at least low + 1, low + 2 … high.

    The shape is (O, high - low). If no sum has such a result, the value is the limit + 1.
    """
    results = np.arange(scaling.low + 1, scaling.high + 1)
    limits = scaling.limits[:, None]
    below = np.repeat(-limits - 1, results.size, axis=1)
    reached = np.repeat(limits + 1, results.size, axis=1)
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        scaled = middle.astype("float32") * scaling.factors[:, None]
        reaches = np.rint(scaled) + np.float32(scaling.zero_point) >= results
        reached = np.where(reaches, middle, reached)
        below = np.where(reaches, below, middle)
    return reached
