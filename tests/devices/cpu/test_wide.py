"""A case that test_forms.py rarely draws: sums of 16-bit activations that exceed 32 bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.forms import portable, rv32
from firmwright.devices.cpu.forms.form import Form, choose
from firmwright.devices.cpu.forms.wide import find_run
from firmwright.ir.layer import Layer, LayerKind, LayerRounding
from tests.devices.cpu.layers import make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import find_platform, run_layers


def make_long_layers() -> list[Layer]:
    """Return a dense layer and a convolution of 2,000 taps, whose weights are all -127."""
    generator = np.random.default_rng(0)
    shapes = {
        LayerKind.WIDE_DENSE: Shape(2000, 5, batch=1),
        LayerKind.WIDE_CONV2D: Shape(1000, 5, 1, 4, (1, 2)),
    }
    layers = [
        make_layer(kind, shape, generator, LayerRounding.ONCE, dtype="int16")
        for kind, shape in shapes.items()
    ]
    return [replace(layer, weights=np.full_like(layer.weights, -127)) for layer in layers]


@pytest.mark.parametrize("forms", [portable.FORMS, rv32.FORMS], ids=["portable", "rv32m"])
def test_sums_are_joined_from_runs_that_fit_32_bits(
    forms: tuple[Form, ...], tmp_path: Path, cache: Path
) -> None:
    """A third of the inputs are the smallest integer, so half of the taps exceed 32 bits."""
    layers = make_long_layers()
    assert [find_run(layer) for layer in layers] == [500, 500]
    chosen = [choose(layer, {"rv32m"}, forms).form for layer in layers]
    fitting = [form for form in chosen if form is not None]
    network = make_network(layers, fitting, shared=False)
    run_layers(network, layers, tmp_path, cache, find_platform(fitting[0], False), "zig", ())
