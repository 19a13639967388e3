"""The reference multiplies uint8 by int8 exactly, also on processors without VNNI."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.onnxruntime_outputs import make_weights_unsigned, run_reference

RANDOM = np.random.default_rng(3)
X = RANDOM.integers(0, 256, (4, 64)).astype("uint8")
W = RANDOM.integers(-128, 128, (64, 6)).astype("int8")


def make_model(
    node: onnx.NodeProto, constants: Mapping[str, object], x_type: int = TensorProto.UINT8
) -> onnx.ModelProto:
    kind = TensorProto.INT32 if node.op_type == "MatMulInteger" else TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", x_type, X.shape)],
        [helper.make_tensor_value_info("y", kind, (4, 6))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


@pytest.mark.parametrize("zero", [None, 0, -7, 127])
def test_sums_of_products_do_not_saturate(zero: int | None) -> None:
    names = ["x", "w"] if zero is None else ["x", "w", "", "zero"]
    constants = {"w": W, "zero": np.array(zero or 0, "int8")}
    model = make_model(helper.make_node("MatMulInteger", names, ["y"]), constants)
    (outputs,) = run_reference(model.SerializeToString(), [{"x": X}]).outputs
    np.testing.assert_array_equal(outputs[0], X.astype("int64") @ (W.astype("int64") - (zero or 0)))


def test_zero_points_per_column_are_shifted() -> None:
    zeros = RANDOM.integers(-128, 128, 6).astype("int8")
    scale = np.float32(1)
    names = ["x", "scale", "x_zero", "w", "scale", "zeros", "y_scale", "x_zero"]
    constants: dict[str, object] = {"w": W, "zeros": zeros, "scale": scale, "x_zero": np.uint8(3)}
    constants["y_scale"] = np.float32(4096)
    model = make_model(helper.make_node("QLinearMatMul", names, ["y"]), constants)
    make_weights_unsigned(model)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    weight, zero = (arrays[model.graph.node[0].input[place]] for place in (3, 5))
    assert weight.dtype == zero.dtype == np.uint8
    np.testing.assert_array_equal(weight - zero.astype("int32"), W - zeros.astype("int32"))


def test_weights_that_meet_int8_stay() -> None:
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    model = make_model(node, {"w": W}, TensorProto.INT8)
    before = model.SerializeToString()
    make_weights_unsigned(model)
    assert model.SerializeToString() == before
