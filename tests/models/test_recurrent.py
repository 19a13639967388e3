"""Recurrent ONNX operators whose inputs do not fit each other are refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from tests.networks.firmware import lowered
from tests.networks.onnx_models import graph, node, value


def test_an_initial_state_of_another_size_is_refused() -> None:
    """What torch's exporter makes of an LSTM whose states are projected."""
    lstm = node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], hidden_size=4)
    arrays = {"w": (1, 16, 5), "r": (1, 16, 4), "h": (1, 1, 4), "c": (1, 1, 8)}
    constants = {name: np.ones(shape, "float32") for name, shape in arrays.items()}
    model = graph([lstm], [value("x", [3, 1, 5])], [value("y", [3, 1, 1, 4])], constants)
    with pytest.raises(UserError, match=r"state 'c' has shape \[1, 8\] .* ask for \[1, 4\]"):
        lowered(model.SerializeToString())


@pytest.mark.parametrize(
    ("attributes", "length", "message"),
    [
        ({"clip": 3.0}, 3, "its attribute clip cannot be compiled"),
        ({"input_forget": 1}, 3, "its attribute input_forget cannot be compiled"),
        (
            {"activations": ["Sigmoid", "Relu", "Tanh"]},
            3,
            "its activations are Sigmoid, Relu, Tanh; only Sigmoid, Tanh, Tanh can be compiled",
        ),
        ({}, 2, "its input sequence_lens 's' may cut .* for whole sequences of 3 steps"),
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
