"""Splits weights into signed digits of 1, 2 or 4 bits for cores with vectors.

A weight is w = step · v + base. A digit v has 1, 2 or 4 bits in two's complement. The step is one
number per layer, and a base is one number per channel. Therefore the weights -1 and 1 need one bit.
A sum is

    sum(w x) = step · sum(v x) + base · sum(x)

A vector of bytes has the digits of several vectors. The C moves a digit to the upper bits of its
byte, and clears the other bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firmwright.devices.cpu.forms.form import Packing
from firmwright.ir.layer import Array

WIDTHS = (1, 2, 4)


@dataclass(frozen=True)
class Digits:
    """The digits of a layer's weights, (channel, tap), in ``bits`` bits.

    ``bases`` are all 0 if the digits times the step are the weights.
    """

    bits: int
    step: int
    values: Array
    bases: Array

    @property
    def per_byte(self) -> int:
        return 8 // self.bits

    @property
    def variant(self) -> dict[str, int]:
        """Return the variables of templates."""
        return {"bits": self.bits, "step": self.step, "based": bool(self.bases.any())}

    @property
    def arrays(self) -> dict[str, Array]:
        return {"bases": self.bases.astype("int16")} if self.bases.any() else {}


def split_weights(weights: Array, least: int = 1) -> Digits:
    """Return weights (channel, tap) in the fewest bits, but at least ``least`` bits.

    If possible, the result has no bases.
    """
    matrix = weights.astype(np.int64)
    for bits in (width for width in WIDTHS if width >= least):
        half = 1 << bits - 1
        if -half <= matrix.min() and matrix.max() < half:
            return Digits(bits, 1, matrix, np.zeros(len(matrix), np.int64))
        lows = matrix.min(1)
        above = matrix - lows[:, None]
        step = int(np.gcd.reduce(above, axis=None)) or 1
        if above.max() // step < 1 << bits:
            return Digits(bits, step, above // step - half, lows + step * half)
    raise AssertionError("the weights need more than 4 bits")


def join_rows(digits: Array, bits: int) -> Array:
    """Return bytes (…) of digits (…, digits of a byte). The first digit has the lowest bits."""
    unsigned = digits & (1 << bits) - 1
    joined: Array = (unsigned << bits * np.arange(8 // bits)).sum(-1).astype("uint8").view("int8")
    return joined


def pack_channels(packing: Packing, channels: int) -> Packing:
    """Return a packing of weights (channel, tap) with digits instead. Channels have whole bytes."""
    digits = split_weights(packing.arrays["weights"].reshape(channels, -1))
    padded = np.pad(digits.values, ((0, 0), (0, -digits.values.shape[1] % digits.per_byte)))
    rows = join_rows(padded.reshape(channels, -1, digits.per_byte), digits.bits)
    arrays = {**packing.arrays, "weights": rows.reshape(-1), **digits.arrays}
    return replace(packing, arrays=arrays, variant={**packing.variant, **digits.variant})
