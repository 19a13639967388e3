"""Finds quantizations in a run whose integers differ because of an earlier rounding.

A layer with int8 weights and float activations quantizes its input in each run. If a float is close
to the middle between two integers, rounding in earlier layers determines the integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from firmwright.ir.regions import Partition, Region
from firmwright.verify.layer_differences import (
    Array,
    ComparedResult,
    Results,
    is_beyond_rounding,
)

QUANTIZE, PARAMETERS = "quantize", 3
"""The operator of ``models/tflite/hybrid.py``, and the number of parameters of a row."""


@dataclass(frozen=True)
class CrossedStep:
    """Integers that differ by one from the integers of the reference's floats.

    ``step`` is the largest real number of one step. ``apart`` is the largest difference of the
    floats.
    """

    region: Region
    count: int
    total: int
    step: float
    apart: float

    def __str__(self) -> str:
        return (
            f"{self.count} of {self.total} inputs of the layer are one step ({self.step:.3g}) "
            f"apart after their quantization in the run ({self.region.name}), because they differ "
            f"by rounding (up to {self.apart:.2g}) before it"
        )


def find_crossed_step(
    partition: Partition,
    regions: Iterable[Region],
    computed: Results,
    compared: Mapping[str, ComparedResult],
) -> CrossedStep | None:
    """Return the first of these regions that rounds a float to another integer, or None.

    The floats before the quantization agree with the reference's floats, except for rounding.
    """
    views = {region.outputs[0]: region.inputs[0] for region in partition.regions if region.view}
    for region in regions:
        if region.anchor != QUANTIZE or len(region.inputs) != 2:
            continue
        (name, parameters), (result,) = region.inputs, region.outputs
        while name not in compared and name in views:
            name = views[name]
        floats, numbers = compared.get(name), computed.get(parameters)
        if floats is None or numbers is None or numbers.shape[-1] != PARAMETERS:
            continue
        ours = computed[result].astype("int64")
        theirs = quantize(floats.expected.reshape(ours.shape), numbers)
        apart = np.abs(ours - theirs)
        if not is_beyond_rounding(floats) and apart.max() == 1:
            step, distance = float(numbers[..., 0].max()), float(floats.distances.max())
            return CrossedStep(region, int(apart.sum()), apart.size, step, distance)
    return None


def quantize(values: Array, numbers: Array) -> Array:
    """Return float32 rows as integers minus their zero points, like dynamic_range.h in C.

    ``numbers`` are the scale, the steps of one unit and the zero point of each row of the firmware.
    The numbers contain the zero points and show whether a row is symmetric.
    """
    low, high = (find(values, axis=-1, keepdims=True) for find in (np.min, np.max))
    scale, point = numbers[..., 0:1], numbers[..., 2:3]
    magnitude = np.maximum(-low, high)
    extent = np.maximum(high, np.float32(0)) - np.minimum(low, np.float32(0))
    symmetric = (point == 0) & np.isclose(magnitude, scale * 127, rtol=1e-3)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(symmetric, 127 / magnitude, 1 / (extent / np.float32(255)))
        real = np.nan_to_num(values * steps + point).clip(-128, 127)
    rounded: Array = np.trunc(real + np.copysign(np.float32(0.5), real)) - point
    return rounded.astype("int64")
