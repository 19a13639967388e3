"""Finds a multiplier for the product of two tensors, and proves it for every pair of bytes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from firmwright.devices.cpu.forms.addition import bound_offset
from firmwright.devices.cpu.forms.form import Packing
from firmwright.ir.layer import Product

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
