"""Values that change between two places where the same C stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from firmwright.codegen.changed_values import unmark_loads
from tests.networks.firmware import assert_exact


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_the_extreme_of_one_element_is_clamped(operator: str, dtype: str, tmp_path: Path) -> None:
    """With a loop of one step gone, the start value and the result stand in one block."""
    nodes = [
        helper.make_node(operator, ["x"], ["extreme"], axes=[0]),
        helper.make_node("Relu", ["extreme"], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, [1, 8]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sample = {"x": np.arange(-4, 4).astype(dtype).reshape(1, 8)}
    assert_exact(model.SerializeToString(), tmp_path, [sample])


def test_of_a_marked_load_the_load_remains() -> None:
    assert unmark_loads("a = LOAD_3(x[(i + (LOAD_12(y[0]) * 2))]);") == "a = x[(i + (y[0] * 2))];"
