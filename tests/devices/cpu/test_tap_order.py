"""Orders of taps keep the sums of each group's weights within 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

from firmwright.devices.cpu.forms.rv32_dense import pack_dense
from firmwright.devices.cpu.forms.tap_order import (
    LARGEST_GROUP,
    find_tap_order,
    largest_group_weight,
)
from firmwright.ir.layer import Array, LayerKind
from tests.devices.cpu.layers import make_layer
from tests.devices.cpu.shapes import Shape

LIMIT = 255


def draw_weights(channels: int, taps: int) -> Array:
    """Return weights whose channels have different magnitudes; one weight is 127."""
    generator = np.random.default_rng(taps)
    spread = generator.uniform(5, 60, (channels, 1))
    weights = generator.normal(0, spread, (channels, taps)).round().clip(-127, 127)
    weights[:, 0] = 127
    return weights.astype("int64")


@pytest.mark.parametrize("taps", [1, 2, 27, 64, 145])
def test_groups_keep_to_the_limit(taps: int) -> None:
    weights = draw_weights(16, taps)
    found = find_tap_order(weights, LIMIT, 2, 40)
    assert sorted(found.order) == [*range(taps)]
    assert np.abs(found.order - np.arange(taps)).max() <= 40
    assert sorted(np.concatenate([g.channels for g in found.groupings])) == [*range(16)]
    for grouping in found.groupings:
        ordered = np.abs(weights[grouping.channels][:, found.order])
        sums = np.add.reduceat(ordered, np.arange(0, taps, grouping.size), axis=1)
        assert sums.max() <= LIMIT


def test_an_order_has_larger_groups_than_none() -> None:
    weights = np.tile([127, 1, 1, 127, 1, 1, 127, 127], (4, 8))
    assert find_tap_order(weights, LIMIT, 2, 40).groupings[0].size >= 3


def test_small_weights_have_the_largest_groups() -> None:
    (grouping,) = find_tap_order(np.ones((4, 64), "int64"), LIMIT, 2, 40).groupings
    assert grouping.size == LARGEST_GROUP


def test_a_product_has_groups_by_channel() -> None:
    layer = make_layer(LayerKind.DENSE, Shape(64, 16), np.random.default_rng(0))
    layer.weights[8:] //= 16
    packing = pack_dense(layer)
    sizes, channels = packing.arrays["runs"].reshape(-1, 2).T
    order = packing.arrays.get("order", np.arange(64))
    magnitudes = np.abs(layer.matrix[packing.arrays["places"]][:, order])
    assert sizes.size > 1 and sizes[0] < sizes[-1]
    limit = largest_group_weight(layer.input_dtype)
    for size, block in zip(sizes, np.split(magnitudes, np.cumsum(channels)[:-1]), strict=True):
        assert block.reshape(len(block), -1, size).sum(2).max() <= limit
