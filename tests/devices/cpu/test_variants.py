"""The variants of a layer's C: their list, with the default first, and the selected one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmwright.devices.cpu.advice import estimate_integers
from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import choose
from firmwright.devices.cpu.variants import choose_variant, explain_width, name_variants
from firmwright.ir.byte_layers import AnyLayer
from firmwright.ir.layer import LayerKind
from firmwright.targets import Context
from firmwright.toolchain import load_platform
from tests.devices.cpu.float_layers import draw_float_layer
from tests.devices.cpu.layers import make_layer
from tests.devices.cpu.pairs import draw_pair
from tests.devices.cpu.shapes import Shape

LARGE = Shape(4, 2, 64, 128)
SMALL = Shape(4, 2, 3, 3)
PLAIN_CORE = str(Path(__file__).parent / "platforms" / "cortex-m0.yaml")


def make_context(specialize: str = "auto", platform: str = "rv32-bare") -> Context:
    return Context(load_platform(platform), "tflite", {"specialize": specialize})


def make(kind: LayerKind, shape: Shape) -> AnyLayer:
    return make_layer(kind, shape, np.random.default_rng(0))


def take(layer: AnyLayer, context: Context) -> str:
    """Return the form, the function, and the tile (if it is not the default) of a layer."""
    default = choose(layer, context.platform.features, FORMS)
    found = choose_variant("region", layer, default, context)
    if found.form is None:
        return "loops"
    tile = "" if found.form in FORMS else f" tile={found.form.list_tiles(layer)[0]}"
    return f"{found.form.name} {'shared' if found.shared else 'separate'}{tile}"


@pytest.mark.parametrize(
    ("shape", "specialize", "variants"),
    [
        (SMALL, "auto", "rv32m shared, rv32m separate, rv32m separate tile=4x2, portable separate, "
                        "portable shared, loops"),
        (LARGE, "auto", "rv32m separate, rv32m shared, rv32m separate tile=4x2, portable separate, "
                        "portable shared, loops"),
        (LARGE, "size", "rv32m shared, rv32m shared tile=4x2, portable shared, loops"),
        (SMALL, "speed", "rv32m separate, rv32m separate tile=4x2, portable separate, loops"),
    ],
)  # fmt: skip
def test_variants_are_forms_with_functions_and_tiles_and_the_first_is_the_default(
    shape: Shape, specialize: str, variants: str
) -> None:
    layer, context = make(LayerKind.CONV2D, shape), make_context(specialize)
    names = name_variants(layer, context)
    assert ", ".join(name.replace("_conv2d", "") for name in names) == variants
    assert take(layer, context) == names[0]
    for name in names:
        assert take(layer, replace(context, variants={"region": name})) == name
    assert take(layer, replace(context, variants={"another": "loops"})) == names[0]


def test_floats_are_not_written_as_loops() -> None:
    """Loops would add the floats in another order."""
    layer = draw_float_layer(LayerKind.FLOAT_CONV2D, np.random.default_rng(0))
    assert name_variants(layer, make_context()) == ("float_conv2d separate", "float_conv2d shared")


def test_a_condition_that_does_not_hold_leaves_a_variant_out() -> None:
    """The form for 32-bit RISC-V needs four pixels."""
    names = name_variants(make(LayerKind.CONV2D, Shape(4, 2, 1, 3)), make_context())
    functions = ("separate", "shared", "separate tile=3x2")
    assert names == (*(f"portable_conv2d {function}" for function in functions), "loops")


@pytest.mark.parametrize(
    ("kind", "shape", "platform", "tiles"),
    [
        (LayerKind.CONV2D, Shape(4, 3, 4, 4), "rv32-bare", "6x2 4x2 4x3"),
        (LayerKind.CONV2D, Shape(4, 3, 1, 5), "rv32-bare", "4x2 4x3"),
        (LayerKind.DEPTHWISE_CONV2D, Shape(4, 4, 3, 24), "rv32-bare", "4x1 12x1"),
        (LayerKind.DEPTHWISE_CONV2D, Shape(4, 4, 7, 3), "rv32-bare", "1x1 7x1"),
        (LayerKind.DEPTHWISE_CONV2D, Shape(4, 4, 5, 25), "rv32-bare", "5x1"),
        (LayerKind.CONV2D, Shape(4, 3, 4, 6), "cortex-m4-bare", "3x2 2x2"),
        (LayerKind.CONV2D, Shape(4, 3, 4, 4), "cortex-m4-bare", "2x2 3x2"),
        (LayerKind.CONV2D, Shape(4, 3, 1, 2), "cortex-m4-bare", "2x2"),
        (LayerKind.GROUPED_CONV2D, Shape(4, 6, 4, 4, groups=2), "rv32-bare", "2x3 4x3 2x2"),
        pytest.param(LayerKind.DENSE, Shape(4, 6), PLAIN_CORE, "1x4 1x2", id="plain core"),
    ],
)  # fmt: skip
def test_tiles_are_no_larger_than_the_output_and_the_usual_one_has_no_name(
    kind: LayerKind, shape: Shape, platform: str, tiles: str
) -> None:
    """A row of a depthwise layer contains a whole number of tiles.

    On Cortex-M, the default has the fewest predicted cycles: two blocks of two pixels need fewer
    cycles than two blocks of three.
    """
    layer, context = make(kind, shape), make_context(platform=platform)
    form = choose(layer, context.platform.features, FORMS).form
    assert form is not None
    default, *others = tiles.split()
    named = [
        name.partition(" tile=")[2] for name in name_variants(layer, context) if "tile" in name
    ]
    assert named == others
    assert str(form.list_tiles(layer)[0]) == default


def test_only_the_usual_form_is_tried_in_other_tiles() -> None:
    context = make_context(platform="cortex-m4-bare")
    names = name_variants(make(LayerKind.DENSE, Shape(4, 6)), context)
    assert names[:3] == ("dsp_dense separate", "dsp_dense shared", "portable_dense separate")
    assert not any("tile" in name for name in names)


@pytest.mark.parametrize(("magnitude", "form"), [(127, "portable_dense"), (15, "rv32m_dense")])
def test_the_form_with_the_fewest_predicted_cycles_is_the_default(
    magnitude: int, form: str
) -> None:
    """On rv32, small weights allow large groups of products that share a word."""
    layer = make_layer(LayerKind.DENSE, Shape(64, 48), np.random.default_rng(0))
    layer = replace(layer, weights=np.where(layer.weights < 0, -magnitude, magnitude))
    names = name_variants(layer, make_context())
    assert names[0].split()[0] == form
    assert {name.split()[0] for name in names} == {"portable_dense", "rv32m_dense", "loops"}


@pytest.mark.parametrize(
    ("kind", "shape", "platform", "form", "reason"),
    [
        (LayerKind.DENSE, Shape(64, 16), "cortex-m4-bare", "dsp_packed_dense", ""),
        (LayerKind.DENSE, Shape(64, 16), "rv32-bare", "portable_packed_dense", ""),
        (LayerKind.DENSE, Shape(4500, 4), "cortex-m4-bare", "dsp_dense",
         "dsp_table_dense is slower"),
        (LayerKind.CONV2D, Shape(64, 16, 5, 5), "cortex-m4-bare", "dsp_packed_conv2d", ""),
        (LayerKind.DENSE, Shape(8, 16), "cortex-m4-bare", "dsp_dense", "fewer than 512 weights"),
        (LayerKind.DENSE, Shape(64, 16), "cortex-m55-bare", "mve_packed_dense", ""),
        (LayerKind.DENSE, Shape(64, 16), "aarch64-linux", "neon_packed_dense", ""),
        (LayerKind.DENSE, Shape(64, 12), "aarch64-dotprod-linux", "neon_packed_dense", ""),
        (LayerKind.DENSE, Shape(64, 16), "host", "x64_packed_dense", ""),
        (LayerKind.DEPTHWISE_CONV2D, Shape(64, 64, 5, 5, (3, 3)), "cortex-m4-bare",
         "dsp_packed_depthwise_conv2d", ""),
        (LayerKind.DEPTHWISE_CONV2D, Shape(64, 64, 5, 5, (3, 1)), "cortex-m4-bare",
         "dsp_depthwise_conv2d", "there are fewer than 256 weights"),
        (LayerKind.GROUPED_CONV2D, Shape(32, 32, 5, 5, (3, 3), groups=2), "cortex-m4-bare",
         "portable_grouped_conv2d", "no form for grouped_conv2d stores fewer bits"),
    ],
)  # fmt: skip
def test_weights_of_4_bits_stay_packed_or_have_a_reason(
    kind: LayerKind, shape: Shape, platform: str, form: str, reason: str
) -> None:
    generator = np.random.default_rng(0)
    layer = make_layer(kind, shape, generator)
    layer = replace(layer, weights=layer.weights % 16 - 8)
    features = load_platform(platform).features
    chosen = choose(layer, features, FORMS).form
    assert chosen is not None and chosen.name == form
    assert reason in explain_width(layer, chosen, features)
    assert bool(reason) == bool(explain_width(layer, chosen, features))


def test_the_estimate_for_int8_is_not_the_cost_of_a_packed_form() -> None:
    (wanted,) = (form.cost for form in FORMS if form.name == "dsp_conv2d")
    assert estimate_integers(LayerKind.CONV2D, {"armv7e-m-dsp"}) == wanted


@pytest.mark.parametrize(("elements", "function"), [(64, "shared"), (4096, "separate")])
def test_only_short_sums_share_a_function(elements: int, function: str) -> None:
    pair = replace(draw_pair(LayerKind.ADD, np.random.default_rng(0)), elements=elements)
    assert take(pair, make_context()).endswith(function)
