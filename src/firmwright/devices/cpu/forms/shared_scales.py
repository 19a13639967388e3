"""Computes the multipliers of a recurrent layer's step from the scales of its weights.

All steps of a recurrent layer have equal weights, but the scales of their inputs and outputs
differ. Let W be a scale of weights and S the quotient of the input's and the output's scale,
both without their powers of two, in 32 and 64 bits. The multiplier is the upper half of W · S,
rounded to 31 bits. The C computes it, so the steps share W, and a step stores S.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firmwright.devices.cpu.forms.byte_functions import MANY_REPEATS
from firmwright.ir.layer import Array, Layer


class SharedScales(NamedTuple):
    """Scales of weights for all steps, uint32, and the numbers of one step, int32.

    The upper 24 bits of a scale are its mantissa. The lowest byte is added to the ``exponent`` of
    the step, which is the last number after the two words of S.
    """

    scales: Array
    step: tuple[int, int, int]


def find_shared_scales(
    layer: Layer, channels: Array, multipliers: Array, shifts: Array, moves: Array
) -> SharedScales | None:
    """Return numbers from which the C computes these ``multipliers`` and ``shifts``, or None.

    All arrays have one element per output of a block. ``moves`` is a part of the shifts that does
    not depend on the scales.
    """
    weights = layer.scaling.weights
    if layer.repeats < MANY_REPEATS or weights is None or layer.scaling.has_offsets:
        return None
    fractions, exponents = np.frexp(weights[channels])
    mantissas = np.rint(fractions * 2**24).astype("int64") << 8
    step, lengthened = layer.scaling.step, 0
    while step * 2**lengthened < 2**63:
        lengthened += 1
    upper, lower = divmod(int(step * 2**lengthened), 2**32)
    products = mantissas.astype(object) * upper + (mantissas.astype(object) * lower >> 32)
    above = (products >> 63).astype("int64")
    values = np.array([round_product(int(p)) for p in products.reshape(-1)]).reshape(products.shape)
    differences = exponents.max() - exponents + moves
    common = np.unique(shifts + above - differences)
    if not np.array_equal(values, multipliers) or common.size != 1 or differences.max() > 255:
        return None
    words = np.array([upper, lower], "uint32").view("int32").tolist()
    return SharedScales(mantissas | differences, (words[0], words[1], int(common[0])))


def round_product(product: int) -> int:
    above = product >> 63
    return (product + (1 << (31 + above))) >> (32 + above)
