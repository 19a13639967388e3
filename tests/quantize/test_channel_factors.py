"""A factor per channel becomes a depthwise convolution, which has an integer form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from firmwright.quantize.calibration import calibrate
from firmwright.quantize.channel_factors import convolve_factors
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.qdq_graph import quantize

from .networks import Array, graph_of, options, ready, samples

NORMALIZATION = ("factor", "offset", "mean", "variance")
FACTORS = np.linspace(-2, 3, 3, dtype="float32").reshape(3, 1, 1)


def model_of(*nodes: onnx.NodeProto, **constants: Array) -> onnx.ModelProto:
    """Return a model whose nodes compute ``made`` from ``x`` (1x3x8x8)."""
    flat = helper.make_node("Reshape", ["made", "shape"], ["y"], "flat")
    constants |= {"shape": np.array([1, -1])}
    return ready(graph_of([*nodes, flat], constants, 3 * 8 * 8))


def node(kind: str, *names: str, **attributes: float) -> onnx.NodeProto:
    *inputs, output = names
    made = helper.make_node(kind, inputs, [output], output)
    made.attribute.extend(helper.make_attribute(n, value) for n, value in attributes.items())
    return made


def normalized_first() -> onnx.ModelProto:
    """A normalization before a ReLU, without an operator before it that could contain it."""
    make = np.random.default_rng(1)
    arrays = {n: make.uniform(0.5, 2, 3).astype("float32") for n in NORMALIZATION}
    return model_of(
        node("BatchNormalization", "x", *NORMALIZATION, "normal", epsilon=0.01),
        node("Relu", "normal", "made"),
        **arrays,
    )


def written_out() -> onnx.ModelProto:
    """The network as torch's exporter writes it out, with a factor that all channels share."""
    half = np.array(0.5, "float32")
    return model_of(
        node("Sub", "x", "mean", "centered"),
        node("Div", "centered", "factors", "scaled"),
        node("Mul", "half", "scaled", "halved"),
        node("Add", "mean", "halved", "made"),
        mean=FACTORS[None] / 4,
        factors=FACTORS,
        half=half,
    )


@pytest.mark.parametrize("build", [normalized_first, written_out], ids=lambda b: b.__name__)
def test_nodes_in_a_row_are_one_convolution(build: Callable[[], onnx.ModelProto]) -> None:
    model = build()
    made = convolve_factors(model)
    onnx.checker.check_model(made, full_check=True)
    kinds = [n.op_type for n in made.graph.node]
    assert kinds[0] == "Conv"
    assert not {*kinds} & {"BatchNormalization", "Sub", "Div", "Mul", "Add"}
    for before, after in zip(evaluate(model, samples(3)), evaluate(made, samples(3)), strict=True):
        assert np.allclose(before["y"], after["y"], rtol=1e-5, atol=1e-6)


def test_every_layer_is_on_integers() -> None:
    model = convolve_factors(normalized_first())
    given = samples(4)
    quantized = quantize(model, calibrate(model, given), options(), given)
    inner = [n for n in quantized.graph.node if n.op_type in ("Conv", "Relu")]
    makers = {o: n.op_type for n in quantized.graph.node for o in n.output}
    assert [n.op_type for n in inner] == ["Conv"]  # the scale after it acts as the ReLU
    assert [makers[name] for name in inner[0].input] == ["DequantizeLinear"] * 3


def test_a_tensor_that_others_read_is_still_made() -> None:
    model = model_of(
        node("Mul", "x", "factors", "scaled"),
        node("Add", "scaled", "factors", "moved"),
        node("Add", "moved", "scaled", "made"),
        factors=FACTORS,
    )
    made = convolve_factors(model)
    assert [n.op_type for n in made.graph.node] == ["Conv", "Add", "Add", "Reshape"]
    for before, after in zip(evaluate(model, samples(2)), evaluate(made, samples(2)), strict=True):
        assert np.array_equal(before["y"], after["y"])


@pytest.mark.parametrize(
    ("kind", "constant"),
    [
        ("Mul", np.array(2, "float32")),
        ("Add", FACTORS),
        ("Mul", np.linspace(1, 2, 8, dtype="float32")),
        ("Mul", np.ones((3, 8, 1), "float32") * FACTORS),
        ("Div", FACTORS * np.array([0, 1, 1], "float32").reshape(3, 1, 1)),
    ],
    ids=["one factor", "only offsets", "along a row", "along two axes", "by zero"],
)
def test_other_nodes_stay(kind: str, constant: Array) -> None:
    model = model_of(node(kind, "x", "constant", "made"), constant=constant)
    assert convolve_factors(model) is model


def test_a_constant_that_is_divided_is_no_factor() -> None:
    model = model_of(node("Div", "constant", "x", "made"), constant=FACTORS)
    assert convolve_factors(model) is model
