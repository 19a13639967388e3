"""Positions of the maximum and minimum if all elements are the limit of the type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

from tests.networks.firmware import assert_exact

pytestmark = pytest.mark.needs("gcc")

INDEX = onnx.TensorProto.INT64

SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "largest": ("ArgMax", {"keepdims": 0}),
    "last_largest": ("ArgMax", {"select_last_index": 1}),
    "smallest": ("ArgMin", {}),
    "last_smallest": ("ArgMin", {"keepdims": 0, "select_last_index": 1}),
}


def find_limits(dtype: str) -> tuple[Any, Any]:
    if np.dtype(dtype).kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def draw(dtype: str) -> list[npt.NDArray[Any]]:
    """Return the minimum everywhere, the maximum everywhere, and numbers with ties."""
    equal = [np.full((2, 5, 3), value, dtype) for value in find_limits(dtype)]
    return [*equal, np.random.default_rng(0).integers(0, 3, (2, 5, 3)).astype(dtype)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32"])
def test_a_place_is_one_of_an_element(dtype: str, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, results = [], []
    for name, (operator, attributes) in SEARCHES.items():
        nodes.append(helper.make_node(operator, ["x"], [name], axis=1, **attributes))
        shape = [2, 3] if attributes.get("keepdims") == 0 else [2, 1, 3]
        results.append(helper.make_tensor_value_info(name, INDEX, shape))
    if dtype == "float32":
        nodes.append(helper.make_node("Hardmax", ["x"], ["one"], axis=1))
        results.append(helper.make_tensor_value_info("one", kind, [2, 5, 3]))
    given = helper.make_tensor_value_info("x", kind, [2, 5, 3])
    graph = helper.make_graph(nodes, "graph", [given], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert_exact(model.SerializeToString(), tmp_path, [{"x": x} for x in draw(dtype)])


def test_what_is_written_at_a_place_stays_inside(tmp_path: Path) -> None:
    """The position after the last element would be outside of the tensor's memory."""
    int8 = onnx.TensorProto.INT8
    nodes = [
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, select_last_index=1),
        helper.make_node("ScatterElements", ["x", "place", "new"], ["y"], axis=1),
    ]
    ends = [helper.make_tensor_value_info(n, int8, [1, s]) for n, s in (("x", 5), ("new", 1))]
    result = helper.make_tensor_value_info("y", int8, [1, 5])
    graph = helper.make_graph(nodes, "graph", ends, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sample = {"x": np.full((1, 5), -128, "int8"), "new": np.full((1, 1), 7, "int8")}
    assert_exact(model.SerializeToString(), tmp_path, [sample])
