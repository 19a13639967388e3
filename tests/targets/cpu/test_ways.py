"""The ways to write a layer: which there are, the usual one first, and which is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firmwright.ir.layer import LayerKind
from firmwright.targets import Context
from firmwright.targets.cpu.forms.form import choose
from firmwright.targets.cpu.layer_functions import AnyLayer
from firmwright.targets.cpu.table import FORMS
from firmwright.targets.cpu.ways import choose_way, name_ways
from firmwright.toolchain import load_platform
from tests.targets.cpu.float_layers import draw_float_layer
from tests.targets.cpu.layers import make_layer
from tests.targets.cpu.shapes import Shape

LARGE = Shape(4, 2, 64, 128)
SMALL = Shape(4, 2, 3, 3)


def make_context(specialize: str = "auto", platform: str = "rv32-bare") -> Context:
    return Context(load_platform(platform), "tflite", {"specialize": specialize})


def make(kind: LayerKind, shape: Shape) -> AnyLayer:
    return make_layer(kind, shape, np.random.default_rng(0))


def take(layer: AnyLayer, context: Context) -> str:
    """Return the form and the function that a layer gets."""
    usual = choose(layer, context.platform.features, FORMS)
    found = choose_way("region", layer, usual, context)
    if found.form is None:
        return "loops"
    return f"{found.form.name} {'shared' if found.shared else 'own'}"


@pytest.mark.parametrize(
    ("shape", "specialize", "ways"),
    [
        (SMALL, "auto", "rv32m shared, rv32m own, portable own, portable shared, loops"),
        (LARGE, "auto", "rv32m own, rv32m shared, portable own, portable shared, loops"),
        (LARGE, "size", "rv32m shared, portable shared, loops"),
        (SMALL, "speed", "rv32m own, portable own, loops"),
    ],
)
def test_ways_are_forms_with_functions_and_the_first_is_usual(
    shape: Shape, specialize: str, ways: str
) -> None:
    layer, context = make(LayerKind.CONV2D, shape), make_context(specialize)
    names = name_ways(layer, context)
    assert ", ".join(name.replace("_conv2d", "") for name in names) == ways
    assert take(layer, context) == names[0]
    for name in names:
        assert take(layer, replace(context, ways={"region": name})) == name
    assert take(layer, replace(context, ways={"another": "loops"})) == names[0]


def test_floats_are_not_written_as_loops() -> None:
    """There they would be added in another order."""
    layer = draw_float_layer(LayerKind.FLOAT_CONV2D, np.random.default_rng(0))
    assert name_ways(layer, make_context()) == ("float_conv2d own", "float_conv2d shared")


def test_a_condition_that_does_not_hold_leaves_a_way_out() -> None:
    """The form for 32-bit RISC-V needs four pixels."""
    names = name_ways(make(LayerKind.CONV2D, Shape(4, 2, 1, 3)), make_context())
    assert names == ("portable_conv2d own", "portable_conv2d shared", "loops")
