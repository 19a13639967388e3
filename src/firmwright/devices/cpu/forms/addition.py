"""Finds multipliers and a shift for a sum, difference or product, proven for all pairs of bytes."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from firmwright.devices.cpu.forms.form import Packing
from firmwright.ir.layer import Addition, Array, Pair, Product

MULTIPLIER_BITS = (23, 22, 21)
"""The numbers of bits to try for the larger multiplier, whose sums have to stay below 2^31."""

NEIGHBORS = sorted(
    product(range(-2, 3), repeat=2), key=lambda pair: (abs(pair[0]) + abs(pair[1]), pair)
)
"""The candidates for the multipliers, as distances from the nearest multipliers, closest first."""


@lru_cache(maxsize=4)
def find_factors(layer: Addition) -> tuple[int, int, int, int] | None:
    """Return multipliers, offset and shift of a sum, or None if no such numbers are found.

    For every a and b, the sum is (a ma + b mb + offset) >> shift, clamped to ``low`` to ``high``.
    """
    left, right = (np.arange(np.iinfo(d).min, np.iinfo(d).max + 1) for d in layer.input_dtypes)
    for bits, steps in product(MULTIPLIER_BITS, NEIGHBORS):
        shift = bits - int(np.frexp(max(map(abs, layer.factors)))[1])
        if not 1 <= shift <= 30:
            continue
        first, second = (
            round(factor * 2**shift) + step
            for factor, step in zip(layer.factors, steps, strict=True)
        )
        sums = first * left[:, None] + second * right[None]
        low, high = bound_offset(layer, sums, shift)
        offset = (low + high) // 2
        if low <= high and int(np.abs(sums).max()) + abs(offset) < 2**31:
            return first, second, offset, shift
    return None


def bound_offset(layer: Pair, sums: Array, shift: int) -> tuple[int, int]:
    """Return the smallest and the largest offset for which all results are exact.

    A result at a limit of the clamp bounds the offset only on one side.
    """
    begins = layer.results << shift
    low = np.where(layer.results > layer.low, begins - sums, -(2**40)).max()
    high = np.where(layer.results < layer.high, begins + (1 << shift) - 1 - sums, 2**40).min()
    return int(low), int(high)


def pack_addition(layer: Addition) -> Packing:
    """Return a packing whose record has no arrays."""
    names = ("first", "second", "offset", "shift")
    factors = dict(zip(names, find_factors(layer) or (), strict=True))
    record = {
        "elements": layer.elements,
        **factors,
        "low": layer.low,
        "high": layer.high,
    }
    return Packing({}, record, {})


LIFT = 13
"""The left shift of a product, which is below 2^16, before the use of its upper half."""

SHIFTS = range(1, 23)
"""The possible shifts; with larger shifts, results would exceed 32 bits."""

STEPS = sorted(range(-(2**12), 2**12 + 1, 2**6), key=abs)
"""The candidates for the multiplier, as distances from the nearest multiplier."""


@lru_cache(maxsize=4)
def find_multiplier(layer: Product) -> tuple[int, int, int] | None:
    """Return the multiplier, offset and shift for the products of all a and b, or None.

    Let h be the upper half of (a b << LIFT) · multiplier. Then a result, before the clamp, is

        low + (h + offset) >> shift

    The function returns None if it finds no such numbers.
    """
    left, right = (
        np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1) - point
        for dtype, point in zip(layer.input_dtypes, layer.zero_points, strict=True)
    )
    products = left[:, None] * right[None] << LIFT
    fraction, exponent = np.frexp(layer.factor)
    shift = LIFT - 1 - int(exponent)
    if shift not in SHIFTS:
        return None
    for step in STEPS:
        multiplier = round(float(fraction) * 2**31) + step
        halves = products * multiplier >> 32
        low, high = bound_offset(layer, halves, shift)
        offset = (low + high) // 2 - (layer.low << shift)
        fits = int(np.abs(halves).max()) + abs(offset) < 2**31 and multiplier < 2**31
        if low <= high and fits:
            return multiplier, offset, shift
    return None


def pack_product(layer: Product) -> Packing:
    """Return a packing whose record has no arrays."""
    multiplier, offset, shift = find_multiplier(layer) or (0, 0, 0)
    first, second = layer.zero_points
    record = {
        "elements": layer.elements,
        "channels": layer.channels,
        "first": first,
        "second": second,
        "multiplier": multiplier,
        "offset": offset,
        "shift": shift,
    }
    scaling = {"one_shift": True, "float_scaled": False, "emulated": False}
    return Packing({}, record, {"low": layer.low, "high": layer.high, **scaling})
