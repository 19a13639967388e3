"""Recurrent ONNX operators with inconsistent inputs are rejected with a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models.onnx.importer import run_reference
from tests.networks.firmware import lowered, run_generated
from tests.networks.onnx_models import graph, node, value


def test_an_initial_state_of_another_size_is_refused() -> None:
    """Return an LSTM with projected states, as torch's exporter writes it."""
    lstm = node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], hidden_size=4)
    arrays = {"w": (1, 16, 5), "r": (1, 16, 4), "h": (1, 1, 4), "c": (1, 1, 8)}
    constants = {name: np.ones(shape, "float32") for name, shape in arrays.items()}
    model = graph([lstm], [value("x", [3, 1, 5])], [value("y", [3, 1, 1, 4])], constants)
    with pytest.raises(UserError, match=r"state 'c' has shape \[1, 8\] .* expected \[1, 4\]"):
        lowered(model.SerializeToString())


@pytest.mark.parametrize(
    ("attributes", "length", "message"),
    [
        (
            {"activations": ["Sigmoid", "Swish", "Tanh"]},
            3,
            "its activations are Sigmoid, Swish, Tanh; expected 3 per direction, 3 in total, from",
        ),
        ({"activations": ["Sigmoid", "Tanh"]}, 3, "expected 3 per direction, 3 in total"),
        ({}, 4, r"its input sequence_lens 's' is \[4\]; expected 1 numbers from 1 to 3"),
    ],
)
def test_settings_that_cannot_be_compiled_are_named(
    attributes: dict[str, Any], length: int, message: str
) -> None:
    lstm = node("LSTM", ["x", "w", "r", "", "s"], ["y"], hidden_size=4, **attributes)
    constants = {
        "w": np.ones((1, 16, 5), "float32"),
        "r": np.ones((1, 16, 4), "float32"),
        "s": np.array([length], "int32"),
    }
    model = graph([lstm], [value("x", [3, 1, 5])], [value("y", [3, 1, 1, 4])], constants)
    with pytest.raises(UserError, match=message):
        lowered(model.SerializeToString())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LSTM", {"activations": ["Relu", "Relu", "Relu"]}),
        ("LSTM", {"clip": 0.5, "activations": ["HardSigmoid", "Tanh", "Tanh"],
                  "activation_beta": [0.9]}),
        ("LSTM", {"activations": ["HardSigmoid", "ScaledTanh", "Softsign"] * 2,
                  "activation_alpha": [0.3, 1.5, 0.2, 0.9],
                  "activation_beta": [0.4, 0.7, 0.6, 0.8],
                  "direction": "bidirectional"}),
        ("LSTM", {"input_forget": 1}),
        ("GRU", {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.2], "clip": 0.7}),
        ("GRU", {"activations": ["HardSigmoid", "Relu"], "linear_before_reset": 1}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        ("RNN", {"activations": ["Elu", "ThresholdedRelu"], "activation_alpha": [0.7, 0.1],
                 "direction": "bidirectional", "clip": 0.9}),
        ("RNN", {"activations": ["Softplus"]}),
    ],
)  # fmt: skip
def test_functions_and_limits_are_those_of_the_node(
    operator: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    layer = node(operator, ["x", "w", "r", "b"], ["y", "h"], hidden_size=4, **attributes)
    random = np.random.default_rng(2)
    shapes = {"w": (gates * 4, 5), "r": (gates * 4, 4), "b": (gates * 8,)}
    constants = {n: random.normal(0, 0.5, (count, *s)).astype("float32") for n, s in shapes.items()}
    outputs = [value("y", [3, count, 2, 4]), value("h", [count, 2, 4])]
    model = graph([layer], [value("x", [3, 2, 5])], outputs, constants, 14).SerializeToString()
    given = [{"x": random.normal(0, 1, (3, 2, 5)).astype("float32")}]
    expected = run_reference(model, given)
    assert expected.runtime.startswith("onnxruntime")
    for ours, theirs in zip(run_generated(model, given, tmp_path)[0], expected.outputs[0],
                            strict=True):  # fmt: skip
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
def test_sequences_of_a_batch_end_at_their_lengths(operator: str, tmp_path: Path) -> None:
    gates, random = {"GRU": 3, "LSTM": 4}[operator], np.random.default_rng(1)
    constants = {
        "w": random.normal(0, 1, (2, gates * 2, 3)).astype("float32"),
        "r": random.normal(0, 1, (2, gates * 2, 2)).astype("float32"),
        "s": np.array([3, 1], "int32"),
    }
    layer = node(operator, ["x", "w", "r", "", "s"], ["y", "h"], hidden_size=2,
                 direction="bidirectional")  # fmt: skip
    ends = [value("y", [4, 2, 2, 2]), value("h", [2, 2, 2])]
    data = graph([layer], [value("x", [4, 2, 3])], ends, constants).SerializeToString()
    given = {"x": random.normal(0, 1, (4, 2, 3)).astype("float32")}
    (found,), (expected,) = (
        run_generated(data, [given], tmp_path),
        run_reference(data, [given]).outputs,
    )
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)
