"""Layers without their constant channels give the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firmwright.ir.layer import LayerKind, LayerRounding
from firmwright.lowering.layer_arithmetic import fold_constant_channels, requantize_sums
from tests.devices.cpu.layers import evaluate, make_layer, scale
from tests.devices.cpu.shapes import Shape


@pytest.mark.parametrize("rounding", list(LayerRounding))
def test_sums_are_scaled_as_the_kernels_scale_them(rounding: LayerRounding) -> None:
    generator = np.random.default_rng(0)
    layer = make_layer(LayerKind.CONV2D, Shape(3, 4, 3, 3, (3, 3)), generator, rounding)
    sums = generator.integers(-(2**20), 2**20, (500, 4))
    expected = np.clip(scale(layer, sums) + layer.zero_point, layer.low, layer.high)
    np.testing.assert_array_equal(requantize_sums(layer, sums), expected)


@pytest.mark.parametrize("rounding", list(LayerRounding))
def test_channels_that_are_always_clamped_are_settled(rounding: LayerRounding) -> None:
    generator = np.random.default_rng(1)
    shape = Shape(3, 6, 5, 5, (3, 3), padding=(1, 1, 1, 1))
    layer = make_layer(LayerKind.CONV2D, shape, generator, rounding, relu=True)
    bias = layer.bias.copy()
    bias[[1, 4]] = -(2**30), 2**30
    layer = replace(layer, bias=bias)
    settled = fold_constant_channels(layer)
    assert [c for c in range(6) if not settled.weights[c].any()] == [1, 4]
    assert settled.largest_sum < 2**20 < layer.largest_sum
    data = generator.integers(-128, 128, (1, 5, 5, 3)).astype("int8")
    np.testing.assert_array_equal(evaluate(settled, [data]), evaluate(layer, [data]))
