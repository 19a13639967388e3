"""Random layers of every width equal numpy: packed by a form, or decoded from a code."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.compression.choice import choose_smallest
from firmwright.devices.cpu import parts
from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Form, choose
from firmwright.ir.layer import Layer, LayerKind
from firmwright.stages.compress import find_needless_parts
from firmwright.toolchain import load_platform
from tests.compression.networks import compress
from tests.devices.cpu.layers import draw, make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import run_layers
from tests.networks.firmware import SANITIZED

COUNT = int(os.environ.get("FIRMWRIGHT_NARROW_LAYERS", "6"))
"""Layers of each width; set the variable to 2000 after a change of packed weights."""

BATCH = 1000
"""Layers in a program; many of them call the same functions."""

KINDS = (LayerKind.CONV2D, LayerKind.DENSE, LayerKind.DEPTHWISE_CONV2D)


def draw_narrow(number: int, bits: int, random: np.random.Generator) -> Layer:
    """Return a random layer; the weights of a channel, or of all channels, need ``bits``."""
    # A search for shifts needs most of the time, so only 5 % of the layers are shifted.
    layer = draw(KINDS[number % len(KINDS)], random, lambda _: number % 4 == 0)
    assert isinstance(layer, Layer)
    if bits == 8:
        return layer
    shape = (layer.out_channels, 1, 1, 1)
    lows = random.integers(-128, 129 - (1 << bits), shape if number % 2 else (1, 1, 1, 1))
    return replace(layer, weights=lows + random.integers(0, 1 << bits, layer.weights.shape))


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_layers_of_each_width_equal_numpy(bits: int, tmp_path: Path) -> None:
    random = np.random.default_rng(bits)
    features = load_platform("host").features
    encoded = 0
    for start in range(0, COUNT, BATCH):
        layers, forms = list[Layer](), list[Form]()
        while len(layers) < min(BATCH, COUNT - start):
            layer = draw_narrow(len(layers), bits, random)
            form = choose(layer, features, FORMS).form
            if form is not None:
                layers.append(layer)
                forms.append(form)
        network = compress(make_network(layers, forms, shared=True))
        encoded += sum("_coded" in p.name for k in network.kernels.kernels for p in k.weights)
        folder = tmp_path / str(start)
        run_layers(network, layers, folder, tmp_path / "cache", "host", "gcc", SANITIZED)
    assert encoded or bits == 8  # few random bytes have no smaller code


def test_only_layers_with_encoded_weights_need_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 64)
    random = np.random.default_rng(3)
    uniform = make_layer(LayerKind.DENSE, Shape(64, 32), random)
    layers = [uniform, replace(uniform, weights=uniform.weights // 64 * 64)]
    forms = [choose(layer, frozenset(), FORMS).form for layer in layers]
    network = make_network(layers, [*filter(None, forms)], shared=True, decodes=True)
    encodings = choose_smallest(network.weights)
    assert all(kernel.parts for kernel in network.kernels.kernels)
    assert find_needless_parts(network.kernels, encodings) == {"layer_0000"}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("platform", ["host", "cortex-m4-bare"])
def test_layers_in_parts_equal_numpy(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 12 layers that have parts: one or several pixels, compressed or not."""
    monkeypatch.setattr(parts, "PART_BYTES", 64)
    random = np.random.default_rng(0)
    features = load_platform(platform).features
    layers, forms, pixels = list[Layer](), list[Form](), set[bool]()
    while len(layers) < 12:
        layer = draw_narrow(0 if len(layers) % 2 else 1, 4 if len(layers) % 3 else 8, random)
        form = choose(layer, features, FORMS).form
        if form is not None and parts.split_layer(layer, form):
            layers.append(layer)
            forms.append(form)
            pixels.add(layer.pixels > 1)
    plain = make_network(layers, forms, shared=True, decodes=True)
    assert len(pixels) == 2 and all(k.parts for k in plain.kernels.kernels)
    coded = compress(plain)
    names = {p.name for k in coded.kernels.kernels for p in k.scratch}
    assert {"weights_part", "output_part"} <= names
    flags, toolchain = (SANITIZED, "gcc") if platform == "host" else ((), "zig")
    for name, network in (("plain", plain), ("coded", coded)):
        run_layers(network, layers, tmp_path / name, tmp_path, platform, toolchain, flags)
