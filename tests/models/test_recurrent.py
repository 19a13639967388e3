"""Recurrent ONNX operators whose inputs do not fit each other are refused in words."""

from __future__ import annotations

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
