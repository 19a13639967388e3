"""Layers that random tests rarely draw: partly empty words of inputs, and scattered values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.ir.layer import Layer, LayerKind
from tests.devices.cpu.layers import make_layer, make_network, narrow_weights
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import run_layers


def make_sensitive_layer(inputs: int) -> Layer:
    """Return a layer in which a sum that is wrong by 8 gives another result."""
    generator = np.random.default_rng(0)
    layer = make_layer(LayerKind.DENSE, Shape(inputs, 16, batch=3), generator)
    scaling = replace(layer.scaling, shifts=layer.scaling.shifts - 6)
    return narrow_weights(replace(layer, scaling=scaling), generator)


@pytest.mark.needs("gcc")
def test_the_last_word_of_inputs_may_be_partly_empty(tmp_path: Path, cache: Path) -> None:
    (form,) = (form for form in FORMS if form.name == "dsp_packed_dense")
    layers = [make_sensitive_layer(inputs) for inputs in (33, 34, 35)]
    network = make_network(layers, [form] * len(layers), shared=True)
    run_layers(network, layers, tmp_path, cache, "host", "gcc", ())


@pytest.mark.needs("gcc")
def test_any_16_values_are_read_from_a_table(tmp_path: Path, cache: Path) -> None:
    (form,) = (form for form in FORMS if form.looked_up)
    random = np.random.default_rng(0)
    layers = list[Layer]()
    for inputs, outputs in ((64, 16), (67, 9), (600, 5)):
        layer = make_layer(LayerKind.DENSE, Shape(inputs, outputs, batch=2), random)
        values = random.choice(np.arange(-128, 128), 16, replace=False)
        layers.append(replace(layer, weights=values[layer.weights % 16]))
    assert all(form.is_for(layer, form.features) for layer in layers)
    network = make_network(layers, [form] * len(layers), shared=False)
    run_layers(network, layers, tmp_path / "host", cache, "host", "gcc", ())
    run_layers(network, layers, tmp_path / "m4", cache, "cortex-m4-bare", "zig", ())
