"""Finds exact integers for functions of one byte: lines, and the logistic function.

The logistic function is computed for the magnitude of its argument, in 52 pieces between 0 and 6.5.
A piece is a polynomial of degree 3 that has the function's values and slopes at both ends.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from firmwright.devices.cpu.forms.addition import MULTIPLIER_BITS, bound_offset
from firmwright.devices.cpu.forms.form import Condition, Packing
from firmwright.ir.byte_layers import ByteFunction
from firmwright.ir.layer import Array

NEAREST = (0, 1, -1, 2, -2, 3, -3, 4, -4)
"""The candidates for a multiplier, as distances from the nearest multiplier."""

MANY_REPEATS = 16
"""The minimum number of equal regions, such as the steps of a recurrent layer, that share numbers.

Fewer tables are smaller than the polynomials and their C.
"""

PIECES, PIECES_PER_UNIT = 52, 8

FRACTION_BITS = 20
"""The bits of a position within a piece."""

ONE = 2**30
"""The value 1 of the logistic function in the C."""


def list_inputs(layer: ByteFunction) -> Array:
    limits = np.iinfo(layer.input_dtype)
    return np.arange(limits.min, limits.max + 1)


@lru_cache(maxsize=4)
def find_line(layer: ByteFunction) -> tuple[int, int, int] | None:
    """Return a factor, an offset and a shift that are exact for every byte, or None.

    A result is (x · factor + offset) >> shift, clamped to the range from ``low`` to ``high``.
    """
    values = list_inputs(layer)
    for bits, step in product(MULTIPLIER_BITS, NEAREST):
        shift = bits - int(np.frexp(layer.slope)[1])
        if not 1 <= shift <= 30:
            continue
        factor = round(layer.slope * 2**shift) + step
        low, high = bound_offset(layer, values * factor, shift)
        offset = (low + high) // 2
        if low <= high and abs(factor) * 256 + abs(offset) < 2**31:
            return factor, offset, shift
    return None


def pack_line(layer: ByteFunction) -> Packing:
    line = find_line(layer)
    assert line is not None  # the form's condition checks the layer
    numbers = dict(zip(("factor", "offset", "shift"), line, strict=True))
    limits = {"low": layer.low, "high": layer.high}
    return Packing({}, {"elements": layer.elements, **numbers, **limits}, {})


@lru_cache(maxsize=1)
def make_curve() -> Array:
    """Return the polynomials of all pieces as (52, 4) int32, from the value to the cubic term.

    The product with a position is a high half, with the position times 2^31. So it loses a factor
    of two, which the coefficients contain.
    """
    ends = np.arange(PIECES + 1) / PIECES_PER_UNIT
    values = 1 / (1 + np.exp(-ends))
    slopes = values * (1 - values) / PIECES_PER_UNIT
    rise, first, last = np.diff(values), slopes[:-1], slopes[1:]
    terms = (values[:-1], first, 3 * rise - 2 * first - last, first + last - 2 * rise)
    curve: Array = np.rint([ONE * 2**n * term for n, term in enumerate(terms)]).T.astype("int32")
    return curve


@lru_cache(maxsize=4)
def find_multiplier(layer: ByteFunction) -> int | None:
    """Return the multiplier for which the polynomials are exact for every byte, or None."""
    scaled = round(layer.slope * PIECES_PER_UNIT * 2**FRACTION_BITS)
    tried = (scaled + step for step in NEAREST if 0 < scaled + step < 2**24)
    return next((m for m in tried if np.array_equal(evaluate(layer, m), layer.results)), None)


def evaluate(layer: ByteFunction, multiplier: int) -> Array:
    """Return the results of the C for every byte."""
    centered = list_inputs(layer) - layer.input_zero_point
    position = np.minimum(np.abs(centered) * multiplier, (PIECES << FRACTION_BITS) - 1)
    terms = make_curve()[position >> FRACTION_BITS].astype("int64").T
    fraction = position << (31 - FRACTION_BITS) & 0x7FFFFFFF
    value = terms[3]
    for term in terms[2::-1]:
        value = term + (value * fraction >> 32)
    value = np.where(centered < 0, ONE - value, value)
    results: Array = np.minimum((value + 2**21 >> 22) - 128, 127)
    return results


def pack_sigmoid(layer: ByteFunction) -> Packing:
    multiplier = find_multiplier(layer)
    assert multiplier is not None  # the form's condition checks the layer
    record = {
        "elements": layer.elements,
        "zero_point": layer.input_zero_point,
        "multiplier": multiplier,
    }
    return Packing({"curve": make_curve().reshape(-1)}, record, {})


LINEAR = Condition(
    "scales for which a multiplication and a shift are exact for all bytes",
    lambda layer: find_line(layer) is not None,
)

REPEATED = Condition(
    f"at least {MANY_REPEATS} regions with equal operators and shapes",
    lambda layer: layer.repeats >= MANY_REPEATS,
)

ON_CURVE = Condition(
    "a scale for which polynomials are exact for all bytes",
    lambda layer: find_multiplier(layer) is not None,
)
