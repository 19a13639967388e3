"""Transposed convolutions become convolutions with forms, and produce ONNX Runtime's integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.networks.firmware import assert_exact, lowered
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

LEFT: tuple[tuple[tuple[int, ...], Options], ...] = (
    ((5, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),  # an odd number of rows
    ((5, 3, 2, 2), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),  # removes results
    ((5, 3, 1, 1), {"strides": [2, 2], "output_padding": [1, 1]}),  # pixels without a tap
    ((5, 3, 3), {"strides": [2], "pads": [1, 1]}),
)


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
    for shape, options in LEFT:
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
