"""The maximum of minus infinities is minus infinity, and the minimum of infinities is infinity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.networks.firmware import assert_exact
from tests.networks.onnx_models import graph, node, value

OPERATORS: dict[str, tuple[str, list[int], dict[str, Any]]] = {
    "ReduceMax": ("ReduceMax", [1], {"keepdims": 0}),
    "ReduceMin": ("ReduceMin", [1], {"keepdims": 0}),
    "MaxPool": ("MaxPool", [1, 1, 2, 2], {"kernel_shape": [2, 2], "strides": [2, 2]}),
}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPERATORS)
def test_extremes_of_infinities(name: str, dtype: str, tmp_path: Path) -> None:
    """The data has infinities of one sign, and infinities next to the largest finite number."""
    operator, shape, options = OPERATORS[name]
    sign = 1 if name == "ReduceMin" else -1
    given = np.full((1, 1, 4, 4), sign * np.inf, dtype)
    given[0, 0, 2, 3] = sign * np.finfo(dtype).max
    shape = [1, 1] if operator.startswith("Reduce") else shape
    axes = {"axes": np.array([2, 3], "int64")} if operator.startswith("Reduce") else {}
    halves = [given, np.full_like(given, sign * np.inf)]
    kind = getattr(TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}[dtype])
    model = graph(
        [node(operator, ["x", *axes], ["y"], **options)],
        [value("x", [1, 1, 4, 4], kind)],
        [value("y", shape, kind)],
        axes,
    )
    found = assert_exact(bytes(model.SerializeToString()), tmp_path, [{"x": h} for h in halves])
    assert np.isinf(found[1][0]).all()
