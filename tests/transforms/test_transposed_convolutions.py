"""Transposed convolutions become convolutions with forms, and produce ONNX Runtime's integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.compile import prepare_module
from firmwright.models import FORMATS
from firmwright.transforms.transposed_convolutions import explain_whole
from tests.networks.firmware import assert_exact, lowered, run_generated
from tests.networks.onnx_models import graph as make_graph
from tests.networks.onnx_models import node, value
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

SOURCE = Grid("int8", F32(0.0513), 3)

Options = dict[str, Any]

SPLIT: tuple[tuple[tuple[int, ...], Options, int], ...] = (
    ((5, 3, 2, 2), {"strides": [2, 2]}, 1),
    ((5, 3, 4, 3), {"strides": [2, 1], "pads": [1, 1, 1, 1]}, 2),
    ((5, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, 4),
    ((5, 3, 4), {"strides": [2], "pads": [1, 1]}, 2),
)
"""Weights (I, O, …), the attributes of the operator, and the number of its parts."""

LEFT: tuple[tuple[tuple[int, ...], Options, str], ...] = (
    ((5, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}, "its output of 11 along an axis"),
    ((5, 3, 2, 2), {"strides": [2, 2], "pads": [1, 1, 1, 1]}, "its padding removes more results"),
    ((5, 3, 1, 1), {"strides": [2, 2], "output_padding": [1, 1]}, "its kernel of 1 along an axis"),
    ((5, 3, 3), {"strides": [2], "pads": [1, 1]}, "its output of 11 along an axis is not"),
)
"""Weights, the attributes of the operator, and the reason why it is not split."""


def add_transposed(graph: Graph, shape: tuple[int, ...], options: Options, biased: bool) -> None:
    random = np.random.default_rng(len(graph.nodes))
    _, real = graph.input((1, 5, 6, 4)[: len(shape)], SOURCE)
    scales = random.uniform(0.004, 0.02, 3).astype("float32")
    inputs = [real, graph.weights(random.integers(-127, 128, shape, "int8"), scales, 0, 1)]
    if biased:
        bias = random.integers(-3000, 3000, 3).astype("int32")
        inputs.append(graph.weights(bias, SOURCE.scale * scales, 0, 0))
    result = graph.node("ConvTranspose", inputs, **options)
    if biased:
        result = graph.node("Relu", [result])
    graph.output(result, Grid("int8", F32(0.2711), -19), lambda *_: np.zeros(0))


@pytest.mark.needs("gcc")
def test_transposed_convolutions_are_exact(tmp_path: Path) -> None:
    graph = Graph()
    for shape, options, _ in SPLIT:
        add_transposed(graph, shape, options, biased=True)
    for shape, options, _ in LEFT:
        add_transposed(graph, shape, options, biased=False)
    data = graph.build()
    network = lowered(data)
    anchors = [region.anchor for region in network.partition.regions]
    assert anchors.count("conv2d") == sum(count for *_, count in SPLIT)
    assert sum(anchor.endswith("transpose") for anchor in anchors) == len(LEFT)
    assert not any(kernel.float_operators for kernel in network.kernels.kernels)
    for outputs in assert_exact(data, tmp_path, graph.samples(3, seed=1)):
        assert all(np.unique(array).size > 10 for array in outputs)


@pytest.mark.needs("gcc")
def test_transposed_convolutions_of_floats_become_convolutions(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    nodes, inputs, outputs = [], [], []
    constants: dict[str, npt.NDArray[Any]] = {}
    for n, (shape, options, _) in enumerate(SPLIT):
        inputs.append(value(f"x{n}", (1, 5, 6, 4)[: len(shape)]))
        outputs.append(value(f"y{n}", list("abcd")[: len(shape)]))
        constants |= {f"w{n}": random.standard_normal(shape).astype("float32"),
                      f"b{n}": random.standard_normal(3).astype("float32")}  # fmt: skip
        nodes += [node("ConvTranspose", [f"x{n}", f"w{n}", f"b{n}"], [f"s{n}"], **options),
                  node("Relu", [f"s{n}"], [f"y{n}"])]  # fmt: skip
    # The bias of the last convolution differs within a channel.
    constants["w"], constants["b"] = constants["w0"], random.standard_normal((1, 1, 12, 8))
    constants["b"] = constants["b"].astype("float32")
    nodes += [node("ConvTranspose", ["x0", "w"], ["s"], strides=[2, 2]), node("Add", "sb", ["y"])]
    outputs.append(value("y", list("abcd")))
    data = make_graph(nodes, inputs, outputs, constants).SerializeToString()
    kernels = lowered(data).kernels.kernels
    assert sum("transpose" in kernel.region for kernel in kernels) == 1
    sample = {
        f"x{n}": random.standard_normal((1, 5, 6, 4)[: len(shape)]).astype("float32")
        for n, (shape, *_) in enumerate(SPLIT)
    }
    found = run_generated(data, [sample], tmp_path)
    expected = FORMATS["onnx"].load().run_reference(data, [sample]).outputs
    for ours, theirs in zip(found, expected, strict=True):
        for array, reference in zip(ours, theirs, strict=True):
            assert np.abs(reference).max() > 1
            np.testing.assert_allclose(array, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("source", "shape", "options"),
    [
        ((1, 6, 5), (6, 2, 3), {"group": 3, "strides": [2], "output_padding": [1]}),
        ((1, 6, 5, 4), (6, 2, 3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((1, 2, 3, 4, 5), (2, 3, 2, 2, 2), {"strides": [2, 2, 2]}),
    ],
    ids=["1d-groups", "2d-groups", "3d"],
)
def test_groups_and_three_dimensions_run_on_integers(
    tmp_path: Path, source: tuple[int, ...], shape: tuple[int, ...], options: Options
) -> None:
    random = np.random.default_rng(0)
    graph = Graph()
    _, real = graph.input(source, SOURCE)
    weights = graph.weights(random.integers(-127, 128, shape, "int8"), np.array(F32(0.011)), 0, 0)
    result = graph.node("ConvTranspose", [real, weights], **options)
    graph.output(result, Grid("int8", F32(0.2711), -19), lambda *_: np.zeros(0))
    data = graph.build()
    assert not any(kernel.float_operators for kernel in lowered(data).kernels.kernels)
    (outputs,) = assert_exact(data, tmp_path, graph.samples(1, seed=1))
    assert np.unique(outputs[0]).size > 10


def test_a_transposed_convolution_that_is_not_split_has_a_reason() -> None:
    graph = Graph()
    for shape, options, *_ in (*SPLIT, *LEFT):
        add_transposed(graph, shape, options, biased=True)
    module, _ = FORMATS["onnx"].load().import_model(graph.build(), "a model", {})
    found = explain_whole(prepare_module(module, ["SplitTransposedConvolutions"]))
    assert len(found) == len(LEFT)
    for (name, reason), (*_, expected) in zip(found, LEFT, strict=True):
        assert name and reason.startswith(expected)
