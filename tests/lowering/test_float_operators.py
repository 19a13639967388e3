"""The list of operators that compute quantized values in float32 is complete and exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_platform, load_toolchain
from tests.lowering.test_tflite_networks import NETWORKS, mirrored
from tests.networks.firmware import lowered
from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import Array, Grid

GRID = Grid("int8", np.float32(0.05), 3)


def unchecked(*_: object) -> Array:
    """These graphs are lowered, not run."""
    raise AssertionError


def listed(graph: Graph, rounding: str = "onnx") -> tuple[int, list[str]]:
    kernels = lowered(graph.build(), "onnx", rounding).kernels
    return kernels.quantized_operators, [o.kind for o in kernels.float_operators]


def test_an_operator_without_integer_form_is_listed_by_name() -> None:
    graph = Graph()
    _, real = graph.input((1, 2, 3, 4), GRID)
    total = graph.node("ReduceLogSumExp", [real, graph.constant(np.array([1]))])
    graph.output(graph.node("Relu", [total]), GRID, unchecked)
    kernels = lowered(graph.build(), "onnx", "tflite").kernels
    kinds = [o.kind for o in kernels.float_operators]
    assert kinds == ["subtract", "exp", "sum", "log", "add"]
    assert kernels.float_operators[-1].source == total
    assert kernels.quantized_operators == len(kinds) + 2  # maximum and ReLU are of integers


def test_the_c_source_says_so_too(tmp_path: Path) -> None:
    graph = Graph()
    pair = [graph.input((1, 2), GRID)[1] for _ in range(2)]
    name = graph.node("Div", pair)
    graph.output(name, GRID, unchecked)
    build = Build(load_toolchain("gcc"), load_platform("host"), ())
    write_project(lowered(graph.build(), "onnx"), build, tmp_path)
    text = (tmp_path / "network" / "network_region_000_divide.c").read_text()
    assert f" * In float32, on quantized values: divide ('{name}')\n" in text


@pytest.mark.parametrize("rounding", ["onnx", "tflite"])
def test_what_runs_on_integers_counts_too(rounding: str) -> None:
    graph = Graph()
    pair = [graph.input((1, 2), GRID)[1] for _ in range(2)]
    graph.output(graph.node("Relu", [graph.node("Sub", pair)]), GRID, unchecked)
    assert listed(graph, rounding) == (2, [])


def test_floats_are_followed_from_region_to_region() -> None:
    graph = Graph()
    _, real = graph.input((1, 2, 4, 4), GRID)
    first = graph.node("LpPool", [real], kernel_shape=[2, 2])
    graph.output(graph.node("Softmax", [first], axis=1), GRID, unchecked)
    assert "softmax" in listed(graph)[1]


def test_sixteen_bits_run_in_float_and_are_listed() -> None:
    graph = Graph()
    _, real = graph.input((1, 2), Grid("int16", np.float32(0.001), 0))
    graph.output(graph.node("Sigmoid", [real]), GRID, unchecked)
    assert listed(graph, "tflite") == (1, ["sigmoid"])


@pytest.mark.parametrize("network", NETWORKS)
def test_mlperf_tiny_runs_on_integers(network: str) -> None:
    kernels = lowered(mirrored(NETWORKS[network]).read_bytes()).kernels
    assert kernels.float_operators == ()
    assert kernels.quantized_operators > 10


@pytest.mark.parametrize("rounding", ["onnx", "tflite"])
@pytest.mark.parametrize("name", ["resnet8_qdq", "kws_qdq"])
def test_qdq_networks_keep_integers_in_the_arena(name: str, rounding: str) -> None:
    network = lowered(mirrored(f"{name}.onnx").read_bytes(), "onnx", rounding)
    planned = {b.name for b in network.plan.buffers}
    assert {t.dtype for t in network.partition.tensors if t.name in planned} == {"int8"}
    floats = [o.kind for o in network.kernels.float_operators]
    assert floats == (["softmax"] if rounding == "tflite" else floats)
    assert set(floats) <= {"add", "avg_pool2d", "softmax"}


def weights_of(kind: int) -> tuple[str, bytes]:
    """Return body and weights of a convolution whose weights are stored as ``kind``."""
    graph = Graph()
    _, real = graph.input((1, 2, 3, 3), GRID)
    values = list(range(-6, 6))
    for name, shape, given in (("w", [6, 2, 1, 1], values), ("z", [], [0])):
        graph.constants.append(helper.make_tensor(name, kind, shape, given))
    scale = graph.constant(np.float32(0.1))
    weights = graph.node("DequantizeLinear", ["w", scale, "z"])
    graph.output(graph.node("Conv", [real, weights]), GRID, unchecked)
    network = lowered(graph.build(), "onnx")
    return network.kernels.kernels[0].body, next(iter(network.weights.values())).tobytes()


def test_weights_of_four_bits_are_as_those_of_eight() -> None:
    assert weights_of(TensorProto.INT4) == weights_of(TensorProto.INT8)
