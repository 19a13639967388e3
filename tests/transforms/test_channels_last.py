"""Channels-last convolutions compute the same results, and layouts change only if necessary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from firmwright.compile import prepare_module
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.models import FORMATS
from firmwright.transforms.channels_last import use_channels_last
from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import assert_exact, lowered
from tests.networks.onnx_models import graph, value
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

NETWORKS = {"kws_qdq.onnx": 0, "resnet8_qdq.onnx": 0}
"""The remaining changes of layout in a network; the first ones are reshapes or cancel out."""


@pytest.mark.parametrize("name", NETWORKS)
def test_no_change_of_layout_is_left(name: str) -> None:
    importer = FORMATS["onnx"].load()
    module, _ = importer.import_model(mirrored(name).read_bytes(), name, {})
    moved = use_channels_last(prepare_module(module))
    operators = [operator_name(binding.value) for binding in main_bindings(moved)]
    assert operators.count("relax.permute_dims") == NETWORKS[name]
    layouts = {
        str(binding.value.attrs.data_layout)
        for binding in main_bindings(moved)
        if operator_name(binding.value) == "relax.nn.conv2d"
    }
    assert layouts == {"NHWC"}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kept", [True, False], ids=["pixels kept", "pixels dropped"])
def test_averages_behind_convolutions_are_integers(kept: bool, tmp_path: Path) -> None:
    graph, random = Graph(), np.random.default_rng(0)

    def convolve(real: str, channels: int, out_channels: int) -> str:
        stored = random.integers(-128, 127, (out_channels, channels, 1, 1), "int8", endpoint=True)
        weights = graph.weights(stored, np.full(out_channels, F32(0.01)), 0, 0)
        return graph.node("Conv", [real, weights], kernel_shape=[1, 1])

    def store(real: str, scale: float) -> str:
        grid = Grid("int8", F32(scale), 3)
        stored = graph.node("QuantizeLinear", [real, *graph.grid(grid)])
        return graph.node("DequantizeLinear", [stored, *graph.grid(grid)])

    _, real = graph.input((1, 4, 6, 5), Grid("int8", F32(0.05), 3))
    real = store(convolve(real, 4, 8), 0.031)
    axes = graph.constant(np.array([2, 3], "int64"))
    real = store(graph.node("ReduceMean", [real, axes], keepdims=int(kept)), 0.0173)
    real = convolve(real, 8, 4) if kept else real
    graph.output(real, Grid("int8", F32(0.06), 3), lambda *_: np.zeros(0))
    data = graph.build()
    assert not lowered(data).kernels.float_operators
    assert_exact(data, tmp_path, graph.samples(3, seed=1))


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 2, 1), (4,)], ids=["channel", "row", "column"])
def test_slopes_move_with_the_channels(shape: tuple[int, ...], tmp_path: Path) -> None:
    weights = np.arange(-12, 12, dtype="float32").reshape(3, 2, 2, 2)
    slopes = np.arange(1, np.prod(shape) + 1, dtype="float32").reshape(shape)
    model = graph(
        [helper.make_node("Conv", ["x", "w"], ["t"]), helper.make_node("PRelu", ["t", "s"], ["y"])],
        [value("x", [1, 2, 3, 5])],
        [value("y", [1, 3, 2, 4])],
        {"w": weights, "s": slopes},
    )
    whole = np.random.default_rng(0).integers(-4, 5, (1, 2, 3, 5)).astype("float32")
    assert_exact(model.SerializeToString(), tmp_path, [{"x": whole}])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("axis", [1, 3, -2])
def test_scales_move_with_the_channels(axis: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(0, 1, (3, 2, 2, 2)).astype("float32")
    count = (1, 3, 2, 4)[axis]
    names = ["s", "z"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"]),
        helper.make_node("QuantizeLinear", ["t", *names], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", ["q", *names], ["d"], axis=axis),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    scales = np.arange(1, count + 1, dtype="float32") / 8
    constants = {"w": weights, "s": scales, "z": np.arange(count, dtype="int8")}
    model = graph(nodes, [value("x", [1, 2, 3, 5])], [value("y", [1, 3, 2, 4])], constants)
    assert_exact(model.SerializeToString(), tmp_path)
