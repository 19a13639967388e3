"""Split factors have the results of the layer's own numbers, with values of 32 bits."""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.requantize import (
    Requantization,
    bound_sums,
    fits_integers,
    make_requantization,
)
from firmwright.devices.cpu.forms.split_factors import SplitFactors, find_split_factors
from firmwright.ir.layer import Layer, LayerKind
from tests.devices.cpu.layers import Array, draw


def scale_split(layer: Layer, factors: SplitFactors, channel: int, sums: Array) -> Array:
    """Return results like the C; every value must have 32 bits."""
    low = sums * factors.lowers[channel]
    product = (low >> factors.fraction) + sums * factors.uppers[channel]
    shifted = product + factors.offsets[channel]
    for values in (low, product, shifted):
        assert np.abs(values).max() < 2**31
    clipped: Array = np.clip(shifted >> factors.shifts[channel], layer.low, layer.high)
    return clipped


def scale_high(layer: Layer, numbers: Requantization, channel: int, sums: Array) -> Array:
    """Return results from the high half of a product of 64 bits."""
    high = (sums * 4 * numbers.multipliers[channel]) >> 32
    if not numbers.one_shift:
        high = (high + 1) >> 1
        high += high >> 63
    steps = (high + numbers.offsets[channel]) >> numbers.shifts[channel]
    clipped: Array = layer.low + np.clip(steps, 0, layer.high - layer.low)
    return clipped


def test_split_factors_equal_the_high_half() -> None:
    generator, split = np.random.default_rng(5), 0
    kinds = (LayerKind.CONV2D, LayerKind.DENSE, LayerKind.DEPTHWISE_CONV2D)
    for number in range(60):
        layer = draw(kinds[number % 3], generator)
        assert isinstance(layer, Layer)
        factors = find_split_factors(layer) if fits_integers(layer) else None
        if factors is None:
            continue
        split += 1
        numbers = make_requantization(layer)
        for channel, limit in enumerate(map(int, bound_sums(layer)[:4])):
            sums = np.unique(
                np.append(generator.integers(-limit, limit + 1, 50_000), [-limit, limit])
            )
            expected = scale_high(layer, numbers, channel, sums)
            np.testing.assert_array_equal(scale_split(layer, factors, channel, sums), expected)
    assert split >= 10
