"""Finds exact multipliers and shifts for a sum, difference or product of any two bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Packing
from firmwright.ir.byte_layers import ByteFunction
from firmwright.ir.layer import Addition, Array, Pair, Product, WrappedSum

MULTIPLIER_BITS = (23, 22, 21)
"""The candidates for the bits of the larger multiplier. The sums must stay below 2^31."""

NEIGHBORS = sorted(
    product(range(-2, 3), repeat=2), key=lambda pair: (abs(pair[0]) + abs(pair[1]), pair)
)
"""The candidates for the multipliers, as distances from the nearest multipliers, closest first."""


@lru_cache(maxsize=4)
def find_factors(layer: Addition) -> tuple[int, int, int, int] | None:
    """Return multipliers, offset and shift of a sum, or None if no exact numbers exist.

    For every a and b, the sum is (a ma + b mb + offset) >> shift, clamped to the range from ``low``
    to ``high``.
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
        low, high = bound_offset(layer, sums[SOME], shift, SOME)
        if low > high:
            continue
        low, high = bound_offset(layer, sums, shift)
        offset = (low + high) // 2
        if low <= high and int(np.abs(sums).max()) + abs(offset) < 2**31:
            return first, second, offset, shift
    return None


SOME = (slice(None, None, 7), slice(None, None, 5))
"""Some of the pairs of bytes. Most wrong multipliers are already wrong for these pairs."""


def bound_offset(
    layer: Pair | ByteFunction, sums: Array, shift: int, pairs: tuple[slice, ...] = ()
) -> tuple[int, int]:
    """Return the smallest and the largest offset for which all results are exact.

    ``sums`` has the sum of each pair of bytes in ``pairs``. A result at a limit of the clamp bounds
    the offset only on one side.
    """
    results = layer.results[pairs]
    begins = results << shift
    low = np.where(results > layer.low, begins - sums, -(2**40)).max()
    high = np.where(results < layer.high, begins + (1 << shift) - 1 - sums, 2**40).min()
    return int(low), int(high)


FACTORS = Condition(
    "scales for which two multiplications and a shift are exact for all bytes",
    lambda layer: find_factors(layer) is not None,
)


def pack_addition(layer: Addition) -> Packing:
    names = ("first", "second", "offset", "shift")
    factors = dict(zip(names, find_factors(layer) or (), strict=True))
    record = {
        "elements": layer.elements,
        **factors,
        "low": layer.low,
        "high": layer.high,
    }
    return Packing({}, record, {})


def omit_limits(layer: Pair | ByteFunction, packing: Packing) -> Packing:
    """Return the packing without the limits of the results if they are the limits of the type.

    Cores with saturation clamp to constant limits in one instruction.
    """
    limits = np.iinfo(layer.output_dtype)
    clamped = (layer.low, layer.high) != (limits.min, limits.max)
    omitted = () if clamped else ("low", "high")
    record = {name: value for name, value in packing.record.items() if name not in omitted}
    return replace(packing, record=record, variant={"clamped": clamped})


LIFT = 13
"""The left shift of a product, which is below 2^16, before the use of the upper half."""

SHIFTS = range(1, 23)
"""The possible shifts. If shifts were larger, results would exceed 32 bits."""

STEPS = sorted(range(-(2**12), 2**12 + 1, 2**6), key=abs)
"""The candidates for the multiplier, as distances from the nearest multiplier, closest first."""

FIRST_STEPS = 9
"""The number of distances to try before a second rounding, which needs two more instructions."""


class Multiplier(NamedTuple):
    """The numbers of a product. Let h be the high half of (a b << ``lift``) · ``multiplier``.

    Without a second rounding, a result before the clamp is low + (h + ``offset`` >> ``shift``). If
    ``twice`` is set, h is first halved and rounded, and a negative half decreases by 1.
    """

    multiplier: int
    offset: int
    shift: int
    twice: bool

    @property
    def lift(self) -> int:
        return 2 if self.twice else LIFT


@lru_cache(maxsize=4)
def find_multiplier(layer: Product) -> Multiplier | None:
    """Return numbers that make a product exact for all a and b, or None."""
    left, right = (
        np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1) - point
        for dtype, point in zip(layer.input_dtypes, layer.zero_points, strict=True)
    )
    products = left[:, None] * right[None]
    for step in STEPS[:FIRST_STEPS]:
        if (numbers := try_multiplier(layer, products, step)) is not None:
            return numbers
    if (numbers := try_two_roundings(layer, products)) is not None:
        return numbers
    tried = (try_multiplier(layer, products, step) for step in STEPS[FIRST_STEPS:])
    return next((numbers for numbers in tried if numbers is not None), None)


def try_multiplier(layer: Product, products: Array, step: int) -> Multiplier | None:
    """Return exact numbers with one rounding for a multiplier at distance ``step``, or None."""
    fraction, exponent = np.frexp(layer.factor)
    shift = LIFT - 1 - int(exponent)
    multiplier = round(float(fraction) * 2**31) + step
    if shift not in SHIFTS or multiplier >= 2**31:
        return None
    low, high = bound_offset(layer, (products[SOME] << LIFT) * multiplier >> 32, shift, SOME)
    if low > high:
        return None
    halves = (products << LIFT) * multiplier >> 32
    low, high = bound_offset(layer, halves, shift)
    offset = (low + high) // 2 - (layer.low << shift)
    fits = int(np.abs(halves).max()) + abs(offset) < 2**31
    return Multiplier(multiplier, offset, shift, twice=False) if low <= high and fits else None


def try_two_roundings(layer: Product, products: Array) -> Multiplier | None:
    """Return the numbers of TFLite's kernel, or None if the results have another rounding."""
    fraction, exponent = np.frexp(layer.factor)
    multiplier, shift = round(float(fraction) * 2**31), -int(exponent)
    if shift not in SHIFTS or multiplier >= 2**31:
        return None
    half = ((products << 2) * multiplier >> 32) + 1 >> 1
    half += half >> 31
    low, high = bound_offset(layer, half, shift)
    offset = (low + high) // 2 - (layer.low << shift)
    fits = int(np.abs(half).max()) + abs(offset) < 2**31
    return Multiplier(multiplier, offset, shift, twice=True) if low <= high and fits else None


MULTIPLIER = Condition(
    "scales for which a multiplication and a shift are exact for all bytes",
    lambda layer: find_multiplier(layer) is not None,
)


def pack_product(layer: Product) -> Packing:
    numbers = find_multiplier(layer)
    assert numbers is not None
    record = {
        "elements": layer.elements,
        "channels": layer.channels,
        "first": layer.zero_points[1 - layer.small],
        "second": layer.zero_points[layer.small],
        **({"neighbors": layer.neighbors} if layer.neighbors > 1 else {}),
        "multiplier": numbers.multiplier,
        "offset": numbers.offset,
        "shift": numbers.shift,
    }
    scaling = {"one_shift": not numbers.twice, "float_scaled": False, "emulated": False}
    variant = {
        "low": layer.low,
        "high": layer.high,
        "lifted": 2 ** (numbers.lift - 2),  # the C code multiplies sums by 4
        "small": layer.small,
        "repeated": layer.neighbors > 1,
        **scaling,
    }
    return Packing({}, record, variant)


def pack_vector_product(layer: Product) -> Packing:
    """Pack a product for vectors, whose offset includes the lowest result."""
    packing = pack_product(layer)
    record = dict(packing.record)
    record["offset"] += layer.low << record["shift"]
    return replace(packing, record=record)


def pack_wrapped_sum(layer: WrappedSum) -> Packing:
    return Packing({}, {"elements": layer.elements}, {"subtracts": layer.sign < 0})
