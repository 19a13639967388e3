"""Kinds of layers that a network has are found, and computed by a form.

That convolutions of groups are exact is tested beside this: tests/lowering/test_tflite_operators.py
for TFLite, tests/lowering/test_qdq_properties.py for ONNX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.networks.firmware import assert_exact, lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import SAME, shaped
from tests.networks.tflite_weighted import Weighted, add_weighted, windows

LAYERS = {
    "grouped": Weighted("CONV_2D", (1, 5, 5, 6), (4, 3, 3, 3), windows(SAME)),
    "channel multiplier": Weighted(
        "DEPTHWISE_CONV_2D", (1, 5, 5, 3), (1, 3, 3, 6), windows(SAME) | {"depthMultiplier": 2}
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_convolution_of_groups_has_a_form(name: str) -> None:
    builder = ModelBuilder()
    add_weighted(builder, LAYERS[name], "int8", "int8", "int32", np.random.default_rng(0))
    (kernel,) = lowered(shaped(builder)).kernels.kernels
    assert "portable_grouped_conv2d" in (kernel.note or "")


def add_convolution_1d(
    graph: Graph, real: str, grid: Grid, shape: tuple[int, int, int], **options: Any
) -> str:
    """Add a quantized convolution of the last axis with random weights and a bias."""
    random = np.random.default_rng(len(graph.nodes))
    scales = random.uniform(0.002, 0.01, shape[0]).astype("float32")
    bias = random.integers(-3000, 3000, shape[0]).astype("int32")
    weights = random.integers(-127, 128, shape, "int8")
    inputs = [real, graph.weights(weights, scales, 0, 0)]
    inputs.append(graph.weights(bias, grid.scale * scales, 0, 0))
    return graph.node("Conv", inputs, kernel_shape=[shape[2]], **options)


@pytest.mark.needs("gcc")
def test_one_dimensional_convolutions_are_layers_and_exact(tmp_path: Path) -> None:
    graph = Graph()
    first, middle, last = (Grid("int8", F32(s), p) for s, p in ((0.05, 3), (0.1, -128), (0.1, 4)))
    _, real = graph.input((1, 1, 23), first)
    real = add_convolution_1d(graph, real, first, (8, 1, 5), pads=[3, 1], strides=[2])
    real = graph.node("Relu", [real])
    stored = graph.node("QuantizeLinear", [real, *graph.grid(middle)])
    real = graph.node("DequantizeLinear", [stored, *graph.grid(middle)])
    wide = add_convolution_1d(graph, real, middle, (6, 8, 3), pads=[1, 2], dilations=[2])
    apart = add_convolution_1d(graph, real, middle, (6, 4, 3), pads=[0, 1], group=2)
    for result in (wide, apart):
        graph.output(result, last, lambda *_: np.zeros(0))
    data = graph.build()
    kernels = lowered(data).kernels.kernels
    notes = [kernel.note or "" for kernel in kernels if "conv" in kernel.region]
    assert ["x64_conv2d" in n or "portable_grouped" in n for n in notes] == [True] * 3
    for outputs in assert_exact(data, tmp_path, graph.samples(4, seed=1)):
        assert all(np.unique(array).size > 10 for array in outputs)
