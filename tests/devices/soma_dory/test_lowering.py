"""Lowered layers: the C against numpy, bit for bit, and its cycles against the cost model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.device_layout import device_storage
from firmwright.devices.soma_dory.lowering import lower_layer
from firmwright.devices.soma_dory.tiles import footprint
from firmwright.devices.soma_dory.tiling import explain_no_tiling, find_best_tiling
from firmwright.ir.storage import from_storage
from tests.devices.soma_dory.layers import (
    DIANA,
    activations,
    add,
    any_layer,
    computed,
    conv2d,
    dense,
    depthwise,
    like_diana,
)
from tests.devices.soma_dory.native import Model, Result, a_region

ACCELERATORS = {
    "diana": DIANA,
    "small": like_diana(l1=6000, weights=9000),
    "two buffers": like_diana(l1=9000, weights=9000, double_buffering=True),
    "tiny": like_diana(l1=2500, weights=4000, bytes_per_cycle=4),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("models")
    return cache(lambda name: Model(ACCELERATORS[name], folder / name))


def check(model: Model, layer: AcceleratorLayer, seed: int = 0, compiler: str = "gcc") -> Result:
    inputs = activations(layer, seed)
    found = model.run(layer, *inputs, compiler=compiler)
    np.testing.assert_array_equal(found.output, computed(layer, *inputs))
    modelled = found.lowered.kernel.cycles
    assert modelled is not None and found.cycles.compute == modelled.compute
    hidden = found.cycles.transfer - modelled.transfer
    assert hidden == 0 or (model.accelerator.double_buffering and hidden > 0)
    return found


LAYERS = {
    "one tile": (conv2d((3, 32, 32), 16), "diana"),
    "a kernel larger than the image": (
        conv2d((5, 3, 4), 9, kernel=(7, 7), padding=(3, 3, 3, 3)), "diana"),
    "tiles of channels": (conv2d((30, 5, 5), 70, seed=1), "small"),
    "tiles of rows": (conv2d((8, 40, 16), 16, kernel=(5, 5), padding=(2, 2, 2, 2)), "small"),
    "tiles of rows, stride 2": (conv2d((8, 40, 15), 16, stride=2, seed=1), "tiny"),
    "a width that 16 does not divide": (
        conv2d((20, 4, 70), 17, kernel=(3, 7), padding=(1, 3, 1, 3), seed=2), "diana"),
    "tiles of rows of 16 bytes": (conv2d((4, 40, 9), 16, padding=(1, 1, 1, 1)), "tiny"),
    "uneven padding": (conv2d((4, 12, 32), 20, stride=2, padding=(0, 1, 1, 1), batch=3), "tiny"),
    "depthwise, tiles of channels": (depthwise((37, 9, 9), batch=2, seed=1), "small"),
    "depthwise, tiles of rows": (depthwise((3, 70, 64), stride=2), "tiny"),
    "dense, tiles of channels": (dense(130, 75, batch=2, seed=1), "tiny"),
    "add, tiles": (add((5, 9, 21), batch=3, seed=1), "tiny"),
    "two buffers": (conv2d((8, 20, 33), 40, seed=1), "two buffers"),
    "depthwise, two buffers": (depthwise((20, 9, 20), batch=2), "two buffers"),
    "dense, two buffers": (dense(300, 70, batch=3), "two buffers"),
    "add, two buffers": (add((10, 20, 20)), "two buffers"),
}  # fmt: skip


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_numpys_bits_in_the_modelled_cycles(
    models: Any, name: str, compiler: str
) -> None:
    layer, accelerator = LAYERS[name]
    found = check(models(accelerator), layer, compiler=compiler)
    assert ("jobs, tiles of" in found.lowered.kernel.body) == (accelerator != "diana")
    assert ("x_at" in found.lowered.kernel.body) == (accelerator == "two buffers")


def test_what_pads_a_row_is_zero_as_far_as_kernels_reach(models: Any) -> None:
    layer = conv2d((3, 5, 21), 4)
    found = models("diana").run(layer, *activations(layer))
    rows = from_storage(found.stored, device_storage((1, 4, 5, 32)), (1, 4, 5, 32))
    assert not rows[..., 21:24].any() and rows[..., 24:].any()


@settings(deadline=None, max_examples=50)
@given(any_layer(), st.sampled_from(sorted(ACCELERATORS)))
def test_any_layer_gives_numpys_bits_in_the_modelled_cycles(
    models: Any, layer: AcceleratorLayer, name: str
) -> None:
    assume(explain_no_tiling(layer, ACCELERATORS[name]) is None)
    check(models(name), layer)


def test_two_buffers_lie_apart() -> None:
    layer, accelerator = conv2d((8, 20, 33), 40), ACCELERATORS["two buffers"]
    tile = find_best_tiling(layer, accelerator).tile
    needed = footprint(layer, tile)
    body = lower_layer(a_region(layer), layer, accelerator).kernel.body
    first, second = 2 * needed.inputs, 2 * needed.inputs + needed.outputs
    assert f"x_at = {needed.inputs} - x_at;" in body
    assert f"y_at = {first};" in body and f"y_at = {first + second} - y_at;" in body
    assert second + needed.outputs <= accelerator.l1


def test_a_layer_says_how_it_is_tiled() -> None:
    small, large = conv2d((16, 16, 16), 16), conv2d((64, 64, 64), 64)
    tile = find_best_tiling(large, DIANA).tile
    notes = [lower_layer(a_region(layer), layer, DIANA).kernel.note for layer in (small, large)]
    assert notes[0] == "One job computes the whole layer."
    size = f"{tile.channels} x {tile.rows} x {tile.columns}"
    assert (
        notes[1]
        == f"{64 // tile.channels * -(-64 // tile.rows)} jobs compute up to {size} results each."
    )


def test_weights_are_named_by_their_region() -> None:
    layer = dense(16, 16)
    lowered = lower_layer(a_region(layer), layer, DIANA)
    assert (
        [w.tensor for w in lowered.kernel.weights] == list(lowered.weights) == ["region_0_weights"]
    )


def test_a_sum_of_a_tensor_and_itself_reads_it_twice() -> None:
    layer = add((1, 1, 16))
    region = a_region(layer)
    twice = replace(region, inputs=("x",))
    lowered = lower_layer(twice, layer, DIANA)
    assert [(p.name, p.tensor) for p in lowered.kernel.inputs] == [
        ("input_0", "x"),
        ("input_1", "x"),
    ]
