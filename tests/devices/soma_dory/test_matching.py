"""Spellings of layers that are recognized, and networks that only begin like a layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.devices.soma_dory.matching import find_layers, make_layer, read_layer
from firmwright.devices.soma_dory.placing import place_layers
from firmwright.ir.layer import LayerKind
from firmwright.targets import Context
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

from .networks import Form, add, dense, depthwise, ones

op = relax.op
CONTEXT = Context(load_platform("diana"), "onnx", {})
Steps = Callable[[Callable[[relax.Expr], relax.Var], relax.Var], relax.Var]


def behind_sums(steps: Steps, *, returned_too: bool = False) -> tvm.IRModule:
    """Return a network that applies a function to the int32 sums of a convolution."""
    graph = Graph()
    numbers = iter(range(99))

    def emit(expression: relax.Expr) -> relax.Var:
        return graph.emit(expression, f"step_{next(numbers)}")

    x = graph.input("x", (1, 16, 8, 8))
    weights = relax.const(ones(16, 16, 3, 3), "int8")
    sums = emit(op.nn.conv2d(x, weights, padding=1, out_dtype="int32"))
    result = steps(emit, sums)
    return canonicalize(graph.output(result, *([sums] if returned_too else [])).module())


def whole(value: float, dtype: str = "int32") -> relax.Expr:
    return relax.const(value, dtype)


def plain(emit: Callable[[relax.Expr], relax.Var], sums: relax.Var) -> relax.Var:
    return emit(op.astype(emit(op.clip(emit(op.right_shift(sums, whole(7))), -128, 127)), "int8"))


SPELLINGS: dict[str, tuple[Steps, bool]] = {
    "clip": (plain, False),
    "ReLU of int8": (lambda emit, x: emit(op.nn.relu(plain(emit, x))), True),
    "clip of int8": (lambda emit, x: emit(op.clip(plain(emit, x), 0, 127)), True),
    "maximum and minimum": (
        lambda emit, x: emit(
            op.astype(
                emit(
                    op.minimum(
                        emit(op.maximum(emit(op.right_shift(x, whole(7))), whole(0))), whole(127)
                    )
                ),
                "int8",
            )
        ),
        True,
    ),
    "bias in front": (
        lambda emit, x: plain(emit, emit(op.add(relax.const(ones(16, 1, 1, dtype="int32")), x))),
        False,
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_spellings_are_the_same_layer(spelling: str) -> None:
    steps, relu = SPELLINGS[spelling]
    module = behind_sums(steps)
    (match,), unmatched = find_layers(module["main"])
    assert not unmatched
    layer = make_layer(match)
    assert (layer.kind, layer.shift, layer.relu) == (LayerKind.CONV2D, 7, relu)
    assert layer.bias is not None
    assert set(layer.bias.tolist()) == {int(spelling == "bias in front")}
    assert match.result.same_as(module["main"].body.blocks[-1].bindings[-1].var)


def test_a_clip_that_the_accelerator_has_not_stays_behind_the_layer() -> None:
    module = behind_sums(lambda emit, x: emit(op.clip(plain(emit, x), 0, 96)))
    (match,), _ = find_layers(module["main"])
    assert match.clip_range == (-128, 127)
    assert len(place_layers(module, CONTEXT).composites) == 1


@pytest.mark.parametrize(
    ("steps", "returned_too", "sentence"),
    [
        (plain, True, "its sums are followed by no operator that reads only these sums"),
        (
            lambda emit, x: emit(op.bitwise_not(x)),
            False,
            "its sums are followed by bitwise_not",
        ),
    ],
)
def test_sums_without_a_requantization(steps: Steps, returned_too: bool, sentence: str) -> None:
    placement = place_layers(behind_sums(steps, returned_too=returned_too), CONTEXT)
    assert not placement.composites
    ((violation,),) = placement.violations.values()
    assert violation.rule == "requantization"
    assert sentence in violation.sentence
    assert "`quantize: {scheme: pow2, arithmetic: shift}`" in violation.sentence


def test_the_analog_core_is_recognized() -> None:
    def analog(emit: Callable[[relax.Expr], relax.Var], sums: relax.Var) -> relax.Var:
        real = emit(op.divide(emit(op.astype(sums, "float32")), whole(4.0, "float32")))
        code = emit(op.astype(emit(op.clip(emit(op.floor(real)), -32, 31)), "int16"))
        scaled = emit(op.add(emit(op.multiply(code, whole(3, "int16"))), whole(1, "int16")))
        shifted = emit(op.right_shift(scaled, whole(2, "int16")))
        return emit(op.astype(emit(op.clip(shifted, -128, 127)), "int8"))

    placement = place_layers(behind_sums(analog), CONTEXT)
    ((violation,),) = placement.violations.values()
    assert violation.rule == "analog core"
    assert "the core is used only with `soma_dory -analog`" in violation.sentence


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        (Form(), ((16, 8, 8), (16, 8, 8), (16, 16, 3, 3))),
        (depthwise(strides=(2, 2)), ((16, 8, 8), (16, 4, 4), (16, 1, 3, 3))),
        (dense(), ((64, 1, 1), (16, 1, 1), (16, 64))),
        (add(), ((16, 8, 8), (16, 8, 8), None)),
        (add(x=(1, 16), other=(1, 16)), ((1, 1, 16), (1, 1, 16), None)),
    ],
)
def test_layer_of(form: Form, shapes: tuple[tuple[int, ...] | None, ...]) -> None:
    layer = read_layer(form.module()["main"])
    assert (layer.channels, layer.height, layer.width) == shapes[0]
    assert (layer.out_channels, layer.out_height, layer.out_width) == shapes[1]
    assert (None if layer.weights is None else layer.weights.shape) == shapes[2]


def test_weights_of_a_dense_layer_are_transposed() -> None:
    weights = np.arange(64 * 16).reshape(64, 16).astype("int8")
    layer = read_layer(dense(weights=weights).module()["main"])
    assert layer.weights is not None
    np.testing.assert_array_equal(layer.weights, weights.T)
