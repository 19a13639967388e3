"""Computes the numbers with which the C converts a layer's sums to stored integers.

Let h be the high 32 bits of the 64-bit product (4 · sum) · multiplier. With one shift, a result is

    low + clamp((h + offset) >> shift, 0, high - low)

With two shifts, h is first rounded: r = (h + 1) >> 1, r += r >> 31, and r replaces h. Both methods
equal TFLite's arithmetic for |sum| < 2^29. One shift is enough if a sum is rounded once, or if the
clamp removes all negative results. The two roundings differ only for negative results.

A product in float32 is rounded to 24 bits and then, half to even, to an integer. This result is
also a step function of the sum, with at most 255 steps. Another step function is a graph of
integers that multiplies, adds and shifts. For most channels, a multiplier and an offset have equal
steps (:func:`find_steps`). The other channels have the multiplier 0 and the mantissa of the float
as offset. The C scales the sums of these channels with float32 arithmetic on integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from firmwright.devices.cpu.forms.form import Condition
from firmwright.ir.layer import Array, Layer, LayerRounding
from firmwright.lowering.kernels.float_steps import (
    EXACT_FLOATS,
    FloatScaling,
    are_usual,
    find_begins,
    fit_steps,
)

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
    """Return whether integers can scale a layer's sums, for every kind of rounding."""
    if layer.scaling.has_offsets:
        return fits_steps(layer)
    scaling = layer.scaling
    return bool(
        not scaling.has_offsets
        and layer.largest_sum < SUM_LIMIT
        and scaling.shifts.min() >= 1
        and scaling.shifts.max() <= LARGEST_SHIFT
    )


INTEGERS = Condition(
    "sums below 2^29, or 2^24 if they are scaled in float32, and factors of 2^-22 to 1/2",
    fits_integers,
)

ROUNDED = Condition(
    "results that are rounded to the nearest",
    lambda layer: layer.scaling.rounding is not LayerRounding.SHIFT,
)
"""The condition of forms whose C has no offset per channel."""


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


SUM_LIMIT = 2**29
"""The limit of sums. The product of a smaller sum and four fits 32 bits."""


def fits_steps(layer: Layer) -> bool:
    """Return whether integers can scale a layer whose steps do not follow from its factors."""
    shifts = layer.scaling.rounding is LayerRounding.SHIFT
    if layer.largest_sum >= (SUM_LIMIT if shifts else EXACT_FLOATS) or not are_usual(
        layer.scaling.factors
    ):
        return False
    return not shifts or bool(find_steps(layer)[0].all())


@lru_cache(maxsize=4)
def find_steps(layer: Layer) -> tuple[Array, Array, Array]:
    """Return multipliers, offsets and shifts of a layer."""
    factors, limits = layer.scaling.factors, bound_sums(layer)
    if layer.scaling.rounding is LayerRounding.SHIFT:
        begins = find_shifted_begins(layer, limits)
    else:
        begins = find_begins(FloatScaling(factors, limits, layer.zero_point, layer.low, layer.high))
    return fit_steps(begins, factors, limits)


def bound_sums(layer: Layer) -> Array:
    """Return the largest magnitude of each channel's sum, including the input's zero point."""
    bounds: Array = np.abs(layer.folded_bias) + np.abs(layer.matrix).sum(1) * largest_input(layer)
    return bounds


def largest_input(layer: Layer) -> int:
    limits = np.iinfo(layer.input_dtype)
    return max(-int(limits.min), int(limits.max))


def find_shifted_begins(layer: Layer, limits: Array) -> Array:
    """Return the first sum of each step of a graph that multiplies, adds and shifts."""
    scaling = layer.scaling
    results = np.arange(layer.low + 1, layer.high + 1)
    steps = results - layer.zero_point
    missing = (steps << scaling.shifts[:, None]) - np.asarray(scaling.offsets)[:, None]
    begins = -(-missing // scaling.mantissas[:, None])
    clipped: Array = np.clip(begins, -limits[:, None], limits[:, None] + 1)
    return clipped
