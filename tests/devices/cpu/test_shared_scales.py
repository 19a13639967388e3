"""Steps of a recurrent layer share the scales and sums of their weights, and remain exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.byte_functions import MANY_REPEATS
from firmwright.ir.layer import Layer, LayerKind, LayerRounding
from firmwright.lowering.kernels.fixed_point import to_fixed_point
from tests.devices.cpu.layers import make_layer, make_network
from tests.devices.cpu.shapes import Shape
from tests.devices.cpu.test_forms import run_layers

(DSP_DENSE,) = (form for form in FORMS if form.name == "dsp_dense")


def make_steps(rounding: LayerRounding, count: int, extreme: bool = False) -> list[Layer]:
    """Return layers with equal weights and scales of weights, and different other scales."""
    generator = np.random.default_rng(int(extreme))
    shape = Shape(11, 14)
    first = make_layer(LayerKind.DENSE, shape, generator, rounding)
    weights = np.full_like(first.weights, -128) if extreme else first.weights
    scales = generator.uniform(1e-4, 4e-3, 14).astype("float32").astype("float64")
    steps = []
    for _ in range(count):
        given, result = (np.float32(generator.uniform(0.01, 0.04)) for _ in range(2))
        fixed = to_fixed_point(scales * float(given) / float(result))
        scaling = replace(
            first.scaling,
            mantissas=fixed.mantissa.astype("int64"),
            shifts=-fixed.shift.astype("int64"),
            weights=scales,
            step=Fraction(float(given)) / Fraction(float(result)),
        )
        points = generator.integers(-128, 128, 2).tolist()
        step = replace(first, weights=weights, bias=first.bias * 0, scaling=scaling)
        step = replace(step, input_zero_point=points[0], zero_point=points[1])
        steps.append(replace(step, repeats=MANY_REPEATS))
    return steps


@pytest.mark.parametrize("rounding", [LayerRounding.ONCE, LayerRounding.TWICE])
def test_steps_share_arrays_and_are_exact(
    rounding: LayerRounding, tmp_path: Path, cache: Path
) -> None:
    steps = make_steps(rounding, 4)
    packings = [DSP_DENSE.pack_layer(step) for step in steps]
    for name in ("weights", "sums", "factors"):
        assert len({packing.arrays[name].tobytes() for packing in packings}) == 1
    assert len({packing.arrays["step"].tobytes() for packing in packings}) == 4
    layers = [*steps, *make_steps(rounding, 2, extreme=True)]
    network = make_network(layers, [DSP_DENSE] * 6, shared=False)
    run_layers(network, layers, tmp_path, cache, "cortex-m4-bare", "zig", ())


@pytest.mark.needs("gcc")
def test_the_portable_c_of_steps_is_exact(tmp_path: Path, cache: Path) -> None:
    layers = make_steps(LayerRounding.ONCE, 3)
    network = make_network(layers, [DSP_DENSE] * 3, shared=True)
    run_layers(network, layers, tmp_path, cache, "host", "gcc", ())


def test_packed_weights_have_separate_multipliers() -> None:
    (form,) = (form for form in FORMS if form.name == "dsp_packed_dense")
    layer = make_steps(LayerRounding.ONCE, 1)[0]
    narrow = replace(layer, weights=layer.weights % 16)
    assert "step" in DSP_DENSE.pack_layer(narrow).arrays
    assert "step" not in form.pack_layer(narrow).arrays


@pytest.mark.parametrize(
    "changes",
    [
        {"repeats": MANY_REPEATS - 1},
        {"bias": np.ones(14, "int64")},
        {"scaling": replace(make_steps(LayerRounding.ONCE, 1)[0].scaling, weights=None)},
        {"scaling": replace(make_steps(LayerRounding.ONCE, 1)[0].scaling, step=Fraction(1, 3))},
    ],
    ids=["few steps", "a bias", "no scales", "other multipliers"],
)
def test_other_layers_store_their_multipliers(changes: dict[str, object]) -> None:
    layer = replace(make_steps(LayerRounding.ONCE, 1)[0], **changes)  # type: ignore[arg-type]
    assert "step" not in DSP_DENSE.pack_layer(layer).arrays
