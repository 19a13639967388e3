"""Finds the sums at which a layer's results step, and integers that produce equal steps."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from firmwright.ir.layer import Array, Layer, LayerRounding
from firmwright.lowering.kernels.float_steps import (
    EXACT_FLOATS,
    FloatScaling,
    are_usual,
    find_begins,
    fit_steps,
)

SUM_LIMIT = 2**29
"""The limit for sums; sums below it can be multiplied by four in 32 bits."""


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
    """Return multipliers, offsets and shifts of a layer.

    The result is cached because several parts of the build need it.
    """
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
    """Return the sums at which the steps of a graph begin that multiplies, moves and shifts
    sums."""
    scaling = layer.scaling
    results = np.arange(layer.low + 1, layer.high + 1)
    steps = results - layer.zero_point
    missing = (steps << scaling.shifts[:, None]) - np.asarray(scaling.offsets)[:, None]
    begins = -(-missing // scaling.mantissas[:, None])
    clipped: Array = np.clip(begins, -limits[:, None], limits[:, None] + 1)
    return clipped
