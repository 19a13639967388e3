"""Each kind of layer in a network is found, and computed by a form.

Other tests show that convolutions of groups are exact: tests/lowering/test_tflite_operators.py for
TFLite, tests/lowering/test_qdq_properties.py for ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.networks.firmware import assert_exact, lowered
from tests.networks.onnx_models import INT32, graph, node, value
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


SAME_PADDED: tuple[tuple[str, tuple[int, ...], tuple[int, ...] | None, dict[str, Any]], ...] = (
    ("Conv", (1, 3, 9), (4, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("Conv", (1, 3, 9), (4, 3, 4), {"auto_pad": "SAME_LOWER"}),
    ("Conv", (1, 2, 3, 5, 4), (4, 2, 2, 3, 2), {"auto_pad": "SAME_UPPER"}),
    ("MaxPool", (1, 3, 9), None, {"auto_pad": "SAME_LOWER", "kernel_shape": [2]}),
    ("AveragePool", (1, 3, 8, 9), None, {"auto_pad": "SAME_UPPER", "kernel_shape": [1, 3]}),
)


@pytest.mark.needs("gcc")
def test_same_padding_runs_on_integers(tmp_path: Path) -> None:
    graph, middle = Graph(), Grid("int8", F32(1 / 16), 3)
    random = np.random.default_rng(0)
    for kind, shape, kernel, options in SAME_PADDED:
        _, real = graph.input(shape, middle)
        weights = []
        if kernel is not None:
            stored = random.integers(-127, 128, kernel, "int8")
            weights = [graph.weights(stored, np.array(F32(1 / 128)), 0, 0)]
        last = middle if kind == "MaxPool" else Grid("int8", F32(0.0711), -9)
        graph.output(graph.node(kind, [real, *weights], **options), last, lambda *_: np.zeros(0))
    data = graph.build()
    assert not any(kernel.float_operators for kernel in lowered(data).kernels.kernels)
    for outputs in assert_exact(data, tmp_path, graph.samples(2, seed=1)):
        assert all(np.unique(array).size > 10 for array in outputs)


@pytest.mark.needs("gcc")
def test_products_of_two_activations_are_layers_and_exact(tmp_path: Path) -> None:
    """Attention's two products, one matrix for a stack of others, and inputs in either order."""
    graph = Graph()
    queries, keys, weights = (
        Grid(d, F32(s), p) for d, s, p in (("int8", 0.05, 3), ("uint8", 0.031, 90), ("int8", 1, -8))
    )
    _, left = graph.input((2, 3, 6, 8), queries)
    _, right = graph.input((2, 3, 5, 8), keys)
    _, matrix = graph.input((5, 7), queries)
    turned = graph.node("Transpose", [right], perm=[0, 1, 3, 2])
    products = graph.node("MatMul", [left, turned])
    stored = graph.node("QuantizeLinear", [products, *graph.grid(weights)])
    real = graph.node("DequantizeLinear", [stored, *graph.grid(weights)])
    for result in (graph.node("MatMul", [real, matrix]), graph.node("MatMul", [real, right])):
        graph.output(result, Grid("int8", F32(0.937), 4), lambda *_: np.zeros(0))
    data = graph.build()
    notes = [kernel.note or "" for kernel in lowered(data).kernels.kernels]
    assert sum("x64_matmul" in note for note in notes) == 3
    for outputs in assert_exact(data, tmp_path, graph.samples(4, seed=1)):
        assert all(np.unique(array).size > 10 for array in outputs)


@pytest.mark.needs("gcc")
def test_heads_of_attention_are_multiplied_where_they_lie(tmp_path: Path) -> None:
    graph = Graph()
    grid = Grid("int8", F32(0.05), 3)
    heads = [graph.input((1, 6, 16), grid)[1] for _ in range(2)]
    heads = [graph.node("Reshape", [h, graph.constant(np.array([1, 6, 2, 8]))]) for h in heads]
    turned = [
        graph.node("Transpose", [head], perm=perm)
        for head, perm in zip(heads, ([0, 2, 1, 3], [0, 2, 3, 1]), strict=True)
    ]
    result = graph.node("MatMul", turned)
    graph.output(result, Grid("int8", F32(0.1937), 4), lambda *_: np.zeros(0))
    data = graph.build()
    (kernel,) = lowered(data).kernels.kernels
    assert "x64_matmul" in (kernel.note or "")
    assert_exact(data, tmp_path, graph.samples(2, seed=1))


NOT_LAID_OUT = {
    "rows whose elements lie apart": ((1, 8, 6), [0, 2, 1], (1, 8, 5), [0, 1, 2]),
    "stacks of two sizes": ((1, 2, 6, 8), [0, 1, 2, 3], (3, 1, 8, 5), [0, 1, 2, 3]),
    "every stack with every other": ((2, 1, 6, 8), [0, 1, 2, 3], (1, 2, 8, 5), [0, 1, 2, 3]),
    "matrices unequally far apart": ((2, 3, 6, 8), [1, 0, 2, 3], (3, 2, 8, 5), [0, 1, 2, 3]),
}


@pytest.mark.parametrize("name", NOT_LAID_OUT)
def test_other_products_are_left_to_loops(name: str) -> None:
    shape, perm, other, other_perm = NOT_LAID_OUT[name]
    graph = Graph()
    reals = [graph.input(s, Grid("int8", F32(0.05), 3))[1] for s in (shape, other)]
    turned = [
        graph.node("Transpose", [real], perm=order)
        for real, order in zip(reals, (perm, other_perm), strict=True)
    ]
    graph.output(graph.node("MatMul", turned), Grid("int8", F32(1), 0), lambda *_: np.zeros(0))
    kernels = lowered(graph.build()).kernels.kernels
    assert not any("Form" in (kernel.note or "") for kernel in kernels)


@pytest.mark.parametrize("axis", [-1, 1])
def test_a_softmax_of_rows_has_a_form(axis: int) -> None:
    """Along any axis except the last one, it is computed by loops in float32."""
    graph = Graph()
    _, real = graph.input((2, 4, 5), Grid("int8", F32(0.07), 3))
    result = graph.node("Softmax", [real], axis=axis)
    graph.output(result, Grid("int8", F32(1 / 256), -128), lambda *_: np.zeros(0))
    kernels = lowered(graph.build()).kernels.kernels
    notes = [kernel.note or "" for kernel in kernels if "softmax" in kernel.region]
    assert ["Form softmax" in note for note in notes] == [axis == -1]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_a_pair_of_tensors_is_a_layer_whatever_shapes_they_had(kind: str, tmp_path: Path) -> None:
    graph, shape = Graph(), (1, 6, 8)
    rows = Grid("int8", F32(0.0317), -7)
    _, left = graph.input(shape, Grid("int8", F32(0.0513), 3))
    stored, _ = graph.input(shape[1:], rows)
    moved = graph.node("Reshape", [stored, graph.constant(np.array(shape))])
    right = graph.node("DequantizeLinear", [moved, *graph.grid(rows)])
    for operands in ([left, right], [right, left]):
        result = graph.node(kind, operands)
        graph.output(result, Grid("int8", F32(0.0731), 5), lambda *_: np.zeros(0))
    data = graph.build()
    assert not lowered(data).kernels.float_operators
    assert_exact(data, tmp_path, graph.samples(4, seed=1))


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("numbers", "bytes_"),
    [(range(-8, 8), 512), ((-1, 0, 1), 256), ((-1, 1), 128), ((3, 67, 99), 256)],
)
def test_constants_of_few_bits_in_loops_are_packed(
    numbers: Sequence[int], bytes_: int, tmp_path: Path
) -> None:
    table = np.random.default_rng(0).choice(np.array(numbers, "int8"), (64, 16))
    nodes = [
        node("DequantizeLinear", ["table", "scale"], ["rows"]),
        node("Gather", ["rows", "x"], ["y"]),
    ]
    constants: dict[str, Any] = {"table": table, "scale": np.float32(0.5)}
    data = graph(nodes, [value("x", (3,), INT32)], [value("y", (3, 16))], constants, opset=21)
    model = data.SerializeToString()
    assert [a.nbytes for a in lowered(model).weights.values() if a.size > 1] == [bytes_]
    assert_exact(model, tmp_path, [{"x": np.array([0, 63, -2], "int32")}])
