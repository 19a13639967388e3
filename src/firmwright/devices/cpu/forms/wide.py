"""Bounds layers with 16-bit activations in TFLite's arithmetic: 8-bit weights, sums up to 64 bits.

The C multiplies a sum by a mantissa and rounds once. The mantissa has 15 bits in convolutions and
31 bits in products. Half a step has no bits below the high 32 bits of sum · mantissa. Therefore a
result is

    (high + 2^(shift - 1)) >> shift

if the sum fits 32 bits. A larger sum is joined from the sums of runs that fit 32 bits.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.form import Condition
from firmwright.ir.layer import Layer

LARGEST_RUN = (2**31 - 1) // 2**15
"""The maximum sum of the magnitudes of a run's weights."""

SCALED = Condition(
    "factors of 2^-32 to 1/4",
    lambda layer: layer.scaling.shifts.min() >= 2 and layer.scaling.shifts.max() <= 31,
)

SUMS = Condition("sums below 2^33", lambda layer: layer.largest_sum < 2**33)

NARROW_SUMS = Condition("sums below 2^31", lambda layer: layer.largest_sum < 2**31)


def find_run(layer: Layer) -> int:
    """Return the taps of the longest runs whose sums fit 32 bits, or 0 if all sums fit."""
    if NARROW_SUMS.holds(layer):
        return 0
    magnitudes = np.abs(layer.matrix)

    def fits(run: int) -> bool:
        sums = magnitudes.reshape(layer.out_channels, -1, run).sum(2)
        return bool(sums.max() <= LARGEST_RUN)

    runs = (run for run in range(layer.taps, 0, -1) if layer.taps % run == 0)
    return next(run for run in runs if fits(run))
