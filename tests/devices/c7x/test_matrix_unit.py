"""Layers on the C7x's matrix unit, by a stand-in for MMALIB that follows TI's published rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from firmwright.devices.c7x.cost import Core
from firmwright.devices.c7x.function_names import EXACT, NEAREST
from firmwright.devices.c7x.loadable import list_imports
from firmwright.devices.c7x.matrix_unit import (
    Calls,
    estimate_calls,
    find_scales,
    make_matrix_forms,
)
from firmwright.devices.cpu.forms.form import choose
from firmwright.ir.layer import Array, Layer, LayerKind, LayerRounding, Scaling
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs
from tests.devices.cpu.layers import evaluate, make_layer
from tests.devices.cpu.shapes import Shape
from tests.networks.firmware import SANITIZED, executed

from .test_forms import make_layers_network, make_platform

CORE = Core(32, 20_000, 2.6, 12.8)
SAME = (1, 1, 1, 1)
SHAPES = (
    Shape(16, 64, 9, 7, (3, 3), padding=SAME),
    Shape(64, 128, 5, 6),
    Shape(3, 64, 11, 9, (5, 5), (2, 2), padding=(2, 2, 2, 2)),
    Shape(40, 128, 14, 10, (3, 3), padding=SAME),
    Shape(70, 64, 8, 8, (1, 1), (2, 2)),
)


def make_planar_layer(
    shape: Shape, generator: np.random.Generator, zero_point: int = 0, shift: bool = False
) -> Layer:
    """Return a layer that MMALIB supports; with ``shift``, its results round down."""
    layer = make_layer(LayerKind.CONV2D, shape, generator)
    layer = replace(layer, input_zero_point=zero_point)
    if not shift:
        return layer
    shifts = np.full(layer.out_channels, 11, "int64")
    mantissas = 1 << generator.integers(0, 4, layer.out_channels)
    scaling = Scaling(LayerRounding.SHIFT, mantissas, shifts, np.ldexp(mantissas, -11), 0 * shifts)
    return replace(layer, scaling=scaling, zero_point=0, low=-100, high=90)


def simulate(layer: Layer, data: Array) -> Array:
    """Return MMALIB's results, by the arithmetic in TI's tests."""
    scales, zeros = find_scales(layer), np.zeros(layer.out_channels, "int64")
    sums = replace(
        layer,
        bias=scales.biases + layer.input_zero_point * layer.matrix.sum(1),
        scaling=Scaling(LayerRounding.SHIFT, zeros + 1, zeros, zeros, zeros),
        zero_point=0,
        low=-(2**31),
        high=2**31 - 1,
        output_dtype="int64",
    )
    half = (np.int64(1) << scales.shifts) >> 1
    result = (evaluate(sums, [data]) * scales.scales + half) >> scales.shifts
    clipped: Array = np.clip(result, layer.low, layer.high)
    return clipped


@pytest.mark.needs("gcc")
def test_a_layer_is_exact_where_mmalib_has_equal_results(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    layers = [
        make_planar_layer(shape, generator, zero_point, n % 2 == 0)
        for n, shape in enumerate(SHAPES)
        for zero_point in (0, -128 + n)
    ]
    calls = [Calls(layer, CORE) for layer in layers]
    assert any(c.rows < c.layer.out_height and c.chunk < c.layer.out_channels for c in calls)
    forms = make_matrix_forms(CORE, NEAREST)
    network = make_layers_network(layers, [choose(layer, (), forms).form for layer in layers])
    inputs = [
        generator.integers(-128, 128, (1, n.height, n.width, n.channels), "int8") for n in layers
    ]
    sample = {
        port.name: data.transpose(0, 3, 1, 2).reshape(port.shape)
        for port, data in zip(network.interface.inputs, inputs, strict=True)
    }
    build = Build(load_toolchain("gcc"), make_platform(32))
    ran = executed(network, [sample], tmp_path, SANITIZED, build=build)
    (found,) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    for layer, data, result in zip(layers, inputs, found, strict=True):
        planar = (1, layer.out_channels, layer.out_height, layer.out_width)
        size = int(np.prod(planar))
        written = result.reshape(-1)[:size].reshape(planar).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(written, simulate(layer, data))
        assert not result.reshape(-1)[size:].any()
        most = find_scales(layer).differences.max()
        error = np.abs(written.astype(int) - evaluate(layer, [data])).max()
        assert error <= most
        is_shift = layer.scaling.rounding is LayerRounding.SHIFT
        assert (
            (most == 0)
            == is_shift
            == (choose(layer, (), make_matrix_forms(CORE, EXACT)).form is not None)
        )


@pytest.mark.parametrize("platform", ["am62a", "am67a"])
def test_a_loadable_imports_the_functions_that_it_calls(platform: str) -> None:
    layer = make_planar_layer(SHAPES[0], np.random.default_rng(1))
    (form,) = make_matrix_forms(CORE, NEAREST)
    (kernel,) = make_layers_network([layer], [form]).kernels.kernels
    given = load_platform(platform)
    transfers = ["tvm_dsp_dma_copy", "tvm_dsp_dma_wait"] if platform == "am67a" else []
    assert list_imports([SimpleNamespace(kernel=kernel)], given) == [*transfers, "mmalib_conv2d_i8"]
    assert list_imports([SimpleNamespace(kernel=replace(kernel, files=()))], given) == transfers


def test_the_measured_layer_has_the_measured_cycles() -> None:
    shape = Shape(64, 64, 56, 56, (3, 3), padding=SAME)
    layer = make_planar_layer(shape, np.random.default_rng(0))
    cycles = {
        memory: estimate_calls(Core(32, memory, 2.6, 12.8), layer) for memory in (524288, 229376)
    }
    assert [c and c.total for c in cycles.values()] == [477_000, 477_000 + 2 * 5_000]


@pytest.mark.parametrize(
    ("shape", "changes", "reason"),
    [
        (Shape(16, 60, 5, 5, (3, 3)), {}, "output channels in multiples of 64"),
        (Shape(16, 64, 5, 5, (3, 3)), {}, "padding that MMALIB supports"),
        (SHAPES[0], {"input_dtype": "uint8"}, "int8 inputs and results"),
        (Shape(16, 64, 5, 5, (3, 3), (1, 2), padding=SAME), {}, "equal strides"),
        (SHAPES[0], {}, "scales of 7 bits with equal results"),
    ],
)
def test_why_a_layer_does_not_use_mmalib_is_said(
    shape: Shape, changes: dict[str, Any], reason: str
) -> None:
    layer = make_planar_layer(shape, np.random.default_rng(2))
    chosen = choose(replace(layer, **changes), (), make_matrix_forms(CORE, EXACT))
    assert chosen.form is None
    assert reason in chosen.refusals[0]
