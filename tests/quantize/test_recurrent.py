"""Recurrent layers are quantized step by step, with equal parameters in all steps."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization.onnx_model import ONNXModel

from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.models.onnx.graph.recurrent import name_without_step
from firmwright.models.onnx.importer import import_model, run_reference
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import evaluate, prepare
from firmwright.quantize.integer_io import read_quant_params
from firmwright.quantize.qdq_graph import IndexedModel, quantize
from tests.networks.firmware import SANITIZED, lowered, run_generated
from tests.networks.onnx_models import graph, node, value

from .networks import options

INPUTS, HIDDEN, BATCH = 5, 8, 2
LAYERS: list[tuple[str, int, dict[str, Any]]] = [
    ("LSTM", 4, {}),
    ("LSTM", 4, {"direction": "bidirectional"}),
    ("GRU", 3, {"linear_before_reset": 1}),
    ("GRU", 3, {"direction": "reverse"}),
    ("RNN", 1, {}),
]
each_layer = pytest.mark.parametrize(
    ("kind", "gates", "attributes"),
    LAYERS,
    ids=["lstm", "lstm-both-ways", "gru", "gru-backwards", "rnn"],
)


def make_network(kind: str, gates: int, steps: int, **attributes: Any) -> bytes:
    """Return a recurrent layer from ``x`` to its sequence ``y``."""
    random = np.random.default_rng(0)
    ways = 1 + (attributes.get("direction") == "bidirectional")
    shapes = {
        "w": (ways, gates * HIDDEN, INPUTS),
        "r": (ways, gates * HIDDEN, HIDDEN),
        "b": (ways, 2 * gates * HIDDEN),
        "h": (ways, BATCH, HIDDEN),
    }
    constants = {n: random.normal(0, 0.4, s).astype("float32") for n, s in shapes.items()}
    layer = node(kind, ["x", "w", "r", "b", "", "h"], ["y"], hidden_size=HIDDEN, **attributes)
    ends = [value("x", [steps, BATCH, INPUTS])], [value("y", [steps, ways, BATCH, HIDDEN])]
    data: bytes = graph([layer], *ends, constants, 17).SerializeToString()
    return data


def make_samples(steps: int, count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    shape = (steps, BATCH, INPUTS)
    return [{"x": random.normal(0, 1, shape).astype("float32")} for _ in range(count)]


def quantize_network(data: bytes, steps: int) -> onnx.ModelProto:
    inputs = [Tensor("x", (steps, BATCH, INPUTS), "float32")]
    model = prepare(data, inputs, PER_CHANNEL_OPSET)
    return quantize(model, calibrate(model, make_samples(steps, 8)), options())


@each_layer
def test_steps_written_out_compute_the_layer(
    kind: str, gates: int, attributes: dict[str, Any]
) -> None:
    data = make_network(kind, gates, 4, **attributes)
    model = prepare(data, [Tensor("x", (4, BATCH, INPUTS), "float32")], PER_CHANNEL_OPSET)
    assert kind not in {n.op_type for n in model.graph.node}
    given = make_samples(4, 2)
    wanted = run_reference(data, given).outputs
    for found, reference in zip(evaluate(model, given), wanted, strict=True):
        np.testing.assert_allclose(found["y"], reference[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "gates", "attributes"), [LAYERS[0], LAYERS[3]], ids="LG")
def test_quantized_steps_are_alike_and_exact(
    kind: str, gates: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    model = quantize_network(make_network(kind, gates, 3, **attributes), 3)
    grids = defaultdict(set)
    for made in model.graph.node:
        if made.op_type == "QuantizeLinear":
            grids[name_without_step(made.input[0])].add(read_quant_params(made, model))
    assert {len(found) for found in grids.values()} == {1}
    assert len(grids) < sum(n.op_type == "QuantizeLinear" for n in model.graph.node) * 2 / 3
    data, given = model.SerializeToString(), make_samples(3, 3)
    for ours, theirs in zip(
        run_generated(data, given, tmp_path, SANITIZED), run_reference(data, given).outputs,
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_copies_of_a_bias_have_names_of_their_own() -> None:
    steps = 32
    graph = quantize_network(make_network("LSTM", 4, steps), steps).graph
    assert sum(node.op_type == "Gemm" for node in graph.node) == 2 * steps


def test_more_steps_take_no_more_functions() -> None:
    networks = [
        lowered(quantize_network(make_network("LSTM", 4, steps), steps).SerializeToString())
        for steps in (5, 7)
    ]
    few, many = (len(set(n.plan.name_functions(n.kernels, "n").values())) for n in networks)
    assert many == few
    sizes = [sum(a.nbytes for a in n.weights.values()) for n in networks]
    assert sizes[1] - sizes[0] < 300  # offsets of the steps, and tables of the last one's function


def test_a_sequence_may_have_thousands_of_steps_and_no_more() -> None:
    _, interface = import_model(make_network("RNN", 1, 300), "m.onnx", {})
    assert interface.outputs[0].shape == (300, 1, BATCH, HIDDEN)
    with pytest.raises(UserError, match="its sequence has 4097 steps; expected at most 4096"):
        import_model(make_network("RNN", 1, 4097), "m.onnx", {})


def test_a_model_with_an_index_gives_nodes_the_same_inputs() -> None:
    steps = 3
    inputs = [Tensor("x", (steps, BATCH, INPUTS), "float32")]
    model = prepare(make_network("LSTM", 4, steps), inputs, PER_CHANNEL_OPSET)
    found = []
    for kind in (ONNXModel, IndexedModel):
        ours = kind(deepcopy(model))
        (read,) = {n.input[0] for n in ours.nodes() if n.op_type == "Gather"} - {"w", "r", "b"}
        first = next(n for n in ours.nodes() if read in n.input)
        ours.replace_input_of_nodes(read, "one", {first.name})
        ours.add_node(node("Relu", [read, read], ["new"], "new"))
        ours.replace_input_of_all_nodes(read, "others")
        ours.replace_input_of_all_nodes("one", "two")
        found.append([list(n.input) for n in ours.nodes()])
    assert found[0] == found[1]
    assert not any(read in names or "one" in names for names in found[0])
