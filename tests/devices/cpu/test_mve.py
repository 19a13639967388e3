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


LARGE_KERNELS = (
    (Shape(6, 6, 9, 11, (5, 5), padding=(2, 2, 2, 2)), "int8"),
    (Shape(5, 5, 12, 12, (7, 7), (2, 2), padding=(2, 2, 3, 3)), "int8"),
    (Shape(3, 3, 8, 40, (8, 8), padding=(0, 0, 0, 0)), "uint8"),
)
"""Kernels of 25, 49 and 64 taps, which need two and four vectors."""


@pytest.mark.needs("qemu-system-arm")
def test_large_depthwise_kernels_use_several_vectors(tmp_path: Path, cache: Path) -> None:
    generator = np.random.default_rng(0)
    kind, features = LayerKind.DEPTHWISE_CONV2D, load_platform("cortex-m55-bare").features
    layers = [make_layer(kind, shape, generator, dtype=dtype) for shape, dtype in LARGE_KERNELS]
    forms = [choose(layer, features, FORMS).form for layer in layers]
    chosen = [form for form in forms if form and form.name == "mve_depthwise_conv2d"]
    assert len(chosen) == len(layers)
    network = make_network(layers, chosen, shared=False)
    run_layers(network, layers, tmp_path, cache, "cortex-m55-bare", "zig", ())


@pytest.mark.needs("gcc")
def test_large_depthwise_kernels_are_exact_in_plain_c(tmp_path: Path, cache: Path) -> None:
    generator = np.random.default_rng(0)
    kind = LayerKind.DEPTHWISE_CONV2D
    layers = [make_layer(kind, shape, generator, dtype=dtype) for shape, dtype in LARGE_KERNELS]
    (form,) = (form for form in FORMS if form.name == "mve_depthwise_conv2d")
    network = make_network(layers, [form] * len(layers), shared=True)
    run_layers(network, layers, tmp_path, cache, "host", "gcc", ())
