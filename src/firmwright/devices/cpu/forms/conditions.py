"""Defines the conditions that forms of several families share."""

from __future__ import annotations

from firmwright.devices.cpu.forms.addition import find_factors, find_multiplier
from firmwright.devices.cpu.forms.form import Condition
from firmwright.devices.cpu.forms.requantize import fits_integers
from firmwright.ir.layer import LayerRounding

INTEGERS = Condition(
    "sums below 2^29, or 2^24 if they are scaled in float32, and factors of 2^-22 to 1/2",
    fits_integers,
)

ROUNDED = Condition(
    "results that are rounded to the nearest",
    lambda layer: layer.scaling.rounding is not LayerRounding.SHIFT,
)
"""The condition of forms whose C has no offset per channel."""

FACTORS = Condition(
    "scales for which two multiplications and a shift are exact for all bytes",
    lambda layer: find_factors(layer) is not None,
)

MULTIPLIER = Condition(
    "scales for which a multiplication and a shift are exact for all bytes",
    lambda layer: find_multiplier(layer) is not None,
)
