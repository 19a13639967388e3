"""Cases that test_forms.py rarely draws: many channels, and large groups in shared loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.forms.form import Tile
from firmwright.devices.cpu.forms.requantize import make_requantization
from firmwright.devices.cpu.forms.rv32 import FORMS, NARROW, SHARED_SIZES, subtract_center
from firmwright.devices.cpu.forms.tap_order import find_tap_order
from firmwright.devices.cpu.variants import shares_function
from firmwright.ir.layer import Layer, LayerKind, LayerRounding
from tests.devices.cpu.layers import make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import run_layers

FORM = FORMS[0]
DENSE = next(form for form in FORMS if form.kind is LayerKind.DENSE)


def make_convolution(shape: Shape, magnitude: int, dtype: str = "int8") -> Layer:
    """Return a layer whose weights all have one magnitude."""
    layer = make_layer(LayerKind.CONV2D, shape, np.random.default_rng(0), dtype=dtype)
    return replace(layer, weights=np.where(layer.weights < 0, -magnitude, magnitude))


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_convolutions_have_every_size_of_groups_and_many_channels(
    shared: bool, tmp_path: Path, cache: Path
) -> None:
    """The layers share one function, and one function that packs rows."""
    shape = Shape(4, 6, 5, 9, (3, 3), padding=(1, 1, 1, 1))
    layers = [make_convolution(shape, 255 // size) for size in SHARED_SIZES]
    sizes = [find_tap_order(x.matrix, 255, 2, 127).groupings[0].size for x in layers]
    assert sizes == [*SHARED_SIZES]
    layers.append(make_convolution(Shape(5, NARROW + 1, 2, 3), 60))
    network = make_network(layers, [FORM] * len(layers), shared)
    names = {f.name for k in network.kernels.kernels for f in k.files if f.name.endswith(".c")}
    assert not shared or len(names) == 4  # narrow and wide, gather, gather_row
    run_layers(network, layers, tmp_path, cache, "rv32-bare", "zig", ())


def test_inputs_of_uint8_have_groups_as_large_as_inputs_of_int8(
    tmp_path: Path, cache: Path
) -> None:
    shape = Shape(4, 6, 5, 9, (3, 3), padding=(1, 1, 1, 1))
    layers = [make_convolution(shape, magnitude, "uint8") for magnitude in (127, 42)]
    sizes = [FORM.pack_layer(layer).arrays["blocks"][0] for layer in layers]
    assert sizes == [2, 6]
    layers.append(make_convolution(Shape(7, 4, 3, 5), 127, "uint8"))
    network = make_network(layers, [FORM] * len(layers), shared=False)
    run_layers(network, layers, tmp_path, cache, "rv32-bare", "zig", ())


def test_multipliers_of_uint8_do_not_depend_on_the_moved_bias(tmp_path: Path, cache: Path) -> None:
    """With the moved bias, sums seem too large for the multiplier that the C expects."""
    kind, random = LayerKind.CONV2D, np.random.default_rng(0)
    shape = Shape(1, 2, 8, 8, (3, 3), padding=(1, 1, 1, 1))
    layer = make_layer(kind, shape, random, LayerRounding.FLOAT, dtype="uint8")
    factors = np.full(2, 0.19 * 255 / 137700, "float32")
    layer = replace(layer, weights=np.full_like(layer.weights, 60), bias=np.zeros(2, "int64"))
    layer = replace(layer, input_zero_point=0, scaling=replace(layer.scaling, factors=factors))
    assert make_requantization(layer).multipliers.all()
    assert not make_requantization(subtract_center(layer)).multipliers.any()
    network = make_network([layer], [FORM], shared=False)
    run_layers(network, [layer], tmp_path, cache, "rv32-bare", "zig", ())


def test_a_tile_of_three_channels_takes_many(tmp_path: Path, cache: Path) -> None:
    """The offsets of two channels no longer fit one word."""
    layers = [make_convolution(Shape(5, NARROW + 1, 2, 3), 60)]
    network = make_network(layers, [FORM.with_tile(Tile(4, 3))], shared=False)
    run_layers(network, layers, tmp_path, cache, "rv32-bare", "zig", ())


@pytest.mark.parametrize("sizes", [(5, 10), (6, 12), (5, 20)])
def test_a_size_of_groups_may_not_be_a_multiple_of_the_largest_unit(
    sizes: tuple[int, int], tmp_path: Path, cache: Path
) -> None:
    """The loop of the larger groups has more inputs at once than the smaller groups have."""
    layer = make_layer(LayerKind.DENSE, Shape(sizes[1], 16), np.random.default_rng(0))
    magnitudes = np.repeat([255 // size for size in sizes], 8).reshape(16, 1, 1, 1)
    layer = replace(layer, weights=np.where(layer.weights < 0, -magnitudes, magnitudes))
    packing = DENSE.pack_layer(layer)
    assert tuple(packing.arrays["runs"][::2]) == sizes
    network = make_network([layer], [DENSE], shared=False)
    run_layers(network, [layer], tmp_path, cache, "rv32-bare", "zig", ())


def test_auto_shares_what_is_small() -> None:
    """A layer with few results shares its loops; a layer with many results has separate loops."""
    small, large = (make_convolution(Shape(4, 2, *size), 60) for size in ((64, 127), (64, 128)))
    for layer, shared in ((small, True), (large, False)):
        assert shares_function(layer, FORM, "auto") is shared
        assert not shares_function(layer, FORM, "speed")
        assert shares_function(layer, FORM, "size")
