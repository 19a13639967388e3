"""Cases of Helium's forms that random layers rarely contain: limits of loads, and ties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import choose
from firmwright.ir.layer import LayerKind
from firmwright.toolchain import load_platform
from tests.devices.cpu.layers import make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import run_layers

SHAPES = {
    "reaches 255 bytes": (Shape(4, 4, 3, 127, (3, 2), padding=(0, 0, 0, 0)), True),
    "reaches 256 bytes": (Shape(4, 4, 3, 128, (3, 1), padding=(0, 0, 0, 0)), False),
    "steps below 64 KiB": (Shape(9362, 9362, 1, 1), True),
    "steps of 64 KiB": (Shape(9363, 9363, 1, 1), False),
}


@pytest.mark.parametrize(("shape", "fits"), SHAPES.values(), ids=SHAPES)
def test_what_gathered_loads_reach(shape: Shape, fits: bool) -> None:
    layer = make_layer(LayerKind.DEPTHWISE_CONV2D, shape, np.random.default_rng(0))
    found = choose(layer, load_platform("cortex-m55-bare").features, FORMS).form
    assert found
    assert found.name == ("mve_depthwise_conv2d" if fits else "dsp_depthwise_conv2d")


@pytest.mark.needs("qemu-system-arm")
def test_ties_of_negative_sums_are_rounded_away_from_zero(tmp_path: Path, cache: Path) -> None:
    """With a factor of 2^-5, every 32nd sum is halfway between two results."""
    layer = make_layer(LayerKind.CONV2D, Shape(3, 8, 24, 24), np.random.default_rng(0))
    halves = np.full(8, 2**30)
    scaling = replace(layer.scaling, mantissas=halves, shifts=np.full(8, 4))
    layer = replace(layer, weights=layer.weights // 8, bias=layer.bias // 64, scaling=scaling)
    form = choose(layer, load_platform("cortex-m55-bare").features, FORMS).form
    assert form
    network = make_network([layer], [form], shared=False)
    run_layers(network, [layer], tmp_path, cache, "cortex-m55-bare", "zig", ())
