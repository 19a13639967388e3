"""Large ONNX graphs are evaluated in parts, with the same bytes as in one session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.graph.sessions import MOST_NODES, split_model
from firmwright.models.onnx.onnxruntime_outputs import run_reference
from tests.networks.onnx_models import graph, node, value

Array = npt.NDArray[Any]

LAYERS = MOST_NODES // 2
"""Layers of three nodes each."""

X = np.linspace(-1, 1, 16, dtype="float32").reshape(2, 8)


def network() -> onnx.ModelProto:
    """Quantized matrix products, and tensors that cross a cut: a residual, an output, a constant.

    One weight is also an input, whose value is optional. No node reads the results of the first
    nodes.
    """
    random = np.random.default_rng(0)
    shared = numpy_helper.from_array(np.array(0.013, "float32"))
    constants = {"zero": np.array(3, "int8"), "given": random.normal(size=(8, 8)).astype("float32")}
    nodes = [node("Constant", [], ["scale"], value=shared)]
    nodes += [node("Tanh", ["x"], [f"unread{i}"]) for i in range(MOST_NODES)]
    nodes.append(node("Tanh", ["x"], ["t0"]))
    for i in range(LAYERS):
        constants[f"w{i}"] = random.normal(size=(8, 8)).astype("float32")
        weights = "given" if i == LAYERS - 1 else f"w{i}"
        nodes += [
            node("MatMul", [f"t{i}", weights], [f"product{i}"]),
            node("QuantizeLinear", [f"product{i}", "scale", "zero"], [f"stored{i}"]),
            node("DequantizeLinear", [f"stored{i}", "scale", "zero"], [f"t{i + 1}"]),
        ]
    nodes.append(node("Add", [f"t{LAYERS}", "t0"], ["y"]))
    inputs = [value("x", [2, 8]), value("given", [8, 8])]
    outputs = [value("y", [2, 8]), value("product1", [2, 8])]
    return graph(nodes, inputs, outputs, constants)


def run_whole(model: onnx.ModelProto, sample: dict[str, Array]) -> list[bytes]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [array.tobytes() for array in session.run(None, sample)]


@pytest.mark.parametrize("sample", [{"x": X}, {"x": X, "given": np.eye(8, dtype="float32")}])
def test_parts_compute_what_the_whole_does(sample: dict[str, Array]) -> None:
    model = network()
    parts = split_model(model)
    assert len(parts) == 2
    assert max(len(part.graph.node) for part in parts) == MOST_NODES + 1  # and the constant
    found = run_reference(model.SerializeToString(), [sample])
    assert found.runtime.startswith("onnxruntime")
    assert [array.tobytes() for array in found.outputs[0]] == run_whole(model, sample)


def test_small_models_stay_whole() -> None:
    model = graph([node("Relu", ["x"], ["y"])], [value("x", [2, 8])], [value("y", [2, 8])])
    assert split_model(model) == [model]


def half_floats(count: int) -> onnx.ModelProto:
    """Products that ONNX Runtime computes in float32, without rounding between them."""
    kind = TensorProto.FLOAT16
    nodes = [node("Mul", [f"t{i}", "factor"], [f"t{i + 1}"]) for i in range(count)]
    factor = {"factor": np.float16(0.997)}
    return graph(nodes, [value("t0", [8], kind)], [value(f"t{count}", [8], kind)], factor)


def branches(count: int) -> onnx.ModelProto:
    """Nodes whose last one has graphs that read a much earlier result."""
    nodes = [node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    made = [
        helper.make_graph(
            [node("Identity", [n], [f"{n}_chosen"])], n, [], [value(f"{n}_chosen", [8])]
        )
        for n in ("t0", "t1")
    ]
    nodes.append(node("If", ["condition"], ["y"], then_branch=made[0], else_branch=made[1]))
    return graph(nodes, [value("t0", [8])], [value("y", [8])], {"condition": np.array(True)})


@pytest.mark.parametrize("make", [half_floats, branches])
def test_models_that_a_cut_might_change_stay_whole(
    make: Callable[[int], onnx.ModelProto],
) -> None:
    model = make(MOST_NODES + 1)
    assert split_model(model) == [model]
