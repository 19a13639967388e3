"""Sums that wrap around, and what is made of them afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.networks.firmware import assert_exact

pytestmark = pytest.mark.needs("gcc")


def test_a_sum_of_int32_keeps_a_clamp_below_zero(tmp_path: Path) -> None:
    """TVM concludes from a cast to unsigned that a number was not negative."""
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["sum"]),
        helper.make_node("Clip", ["sum", "low", "high"], ["clamped"]),
        helper.make_node("Cast", ["clamped"], ["y"], to=TensorProto.INT8),
    ]
    constants = {"bias": np.arange(-4, 4), "low": np.array(-128), "high": np.array(127)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [8])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [8])],
        [numpy_helper.from_array(a.astype("int32"), n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    values = np.array([-(2**31) + 4, 2**31 - 8, -1000, -129, -1, 0, 126, 1000], "int32")
    samples = [{"x": values}, {"x": -values}]
    assert_exact(model.SerializeToString(), tmp_path, samples)
