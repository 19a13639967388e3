"""The C7x's forms compute random layers exactly, with vectors of both widths and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.c7x import strips
from firmwright.devices.c7x.cost import Core
from firmwright.devices.c7x.forms import cut, make_forms
from firmwright.devices.cpu.forms.form import Form, choose
from firmwright.ir.layer import Layer, LayerKind
from firmwright.project.network import Network
from firmwright.toolchain import Build, Platform, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs
from tests.devices.cpu.layers import AnyLayer, draw, evaluate, make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.networks.firmware import SANITIZED, executed

EACH = 8
"""Layers per form in a network."""

LOCAL_MEMORY = 3500
"""Bytes of memory; the weights of some layers do not fit at once."""


def draw_layers(forms: Sequence[Form], seed: int) -> list[AnyLayer]:
    """Return random layers that the forms support, and two with more than one part of channels."""
    generator = np.random.default_rng(seed)
    found: list[AnyLayer] = [
        make_layer(LayerKind.CONV2D, Shape(5, 70, 9, 7, (3, 3)), generator),
        make_layer(LayerKind.DENSE, Shape(37, 83), generator),
    ]
    for form in forms:

        def is_taken(layer: AnyLayer, form: Form = form) -> bool:
            return choose(layer, (), (form,)).form is not None

        drawn = (draw(form.kind, generator, is_taken) for _ in count())
        found += islice(filter(is_taken, drawn), EACH)
    return found


def make_platform(vector: int) -> Platform:
    """Return this machine with a C7x whose vector registers have a number of bytes."""
    host = load_platform("host")
    return replace(host, accelerators={"c7x": {**host.accelerators["c7x"], "vector": vector}})


def make_layers_network(layers: Sequence[AnyLayer], forms: Sequence[Form | None]) -> Network:
    """Return a network on the C7x that consists of layers; each layer has a form."""
    network = make_network(layers, [form for form in forms if form], shared=False)
    regions = tuple(replace(r, device="c7x") for r in network.partition.regions)
    return replace(network, partition=replace(network.partition, regions=regions))


def assert_layers(
    network: Network,
    layers: Sequence[AnyLayer],
    build: Build,
    folder: Path,
    cflags: tuple[str, ...],
    edit: Callable[[Path], None] = lambda _: None,
) -> None:
    """Build and run a network of layers; compare each with numpy."""
    generator = np.random.default_rng(1)
    sample = {}
    for port in network.interface.inputs:
        limits = np.iinfo(port.dtype)
        sample[port.name] = generator.integers(limits.min, limits.max + 1, port.shape, port.dtype)
    ran = executed(network, [sample], folder, cflags, edit, build)
    (found,) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    for number, (layer, result) in enumerate(zip(layers, found, strict=True)):
        read = network.partition.regions[number].inputs
        expected = evaluate(layer, [sample[name] for name in read])
        written, behind = np.split(result, [expected.size])
        np.testing.assert_array_equal(written.reshape(expected.shape), expected, f"layer {number}")
        assert not behind.any(), f"layer {number} writes behind its output"


@pytest.mark.parametrize(
    ("vector", "toolchain", "cflags"),
    [
        pytest.param(32, "gcc", SANITIZED, marks=pytest.mark.needs("gcc")),
        pytest.param(64, "clang", ("-O1", "-Werror"), marks=pytest.mark.needs("clang")),
        pytest.param(64, "gcc", (*SANITIZED, "-DFW_MAC_PLAIN"), marks=pytest.mark.needs("gcc")),
    ],
    ids=["256", "512", "plain"],
)
def test_a_form_is_exact(
    vector: int,
    toolchain: str,
    cflags: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strips, "STRIP_BYTES", 256)  # so that even small images are split
    core = Core(vector, LOCAL_MEMORY)
    layers = draw_layers(make_forms(core), seed=vector)
    cuts = [cut(core, layer) for layer in layers if isinstance(layer, Layer)]
    assert any(c.strips > 1 and c.chunk < c.blocks for c in cuts)
    assert {c.tile for c in cuts} == {1, 2, 3, 4}
    network = make_layers_network(
        layers, [choose(layer, (), make_forms(core)).form for layer in layers]
    )
    build = Build(load_toolchain(toolchain), make_platform(vector))
    assert_layers(network, layers, build, tmp_path, cflags)
