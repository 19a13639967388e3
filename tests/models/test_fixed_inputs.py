"""Inputs and dimensions that a recipe fixes before the import."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.fixed_inputs import fix_inputs
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.onnx_models import graph, node, value


def by_rate() -> bytes:
    """Return a model whose branch, and so its output's shape, depends on the input ``sr``."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("Slice", ["x", "zero", end, "one"], [name])], name, [], [value(name, [1, "n"])]
        )
        for name, end in (("then", "two"), ("else", "three"))
    }
    nodes = [
        node("Equal", ["sr", "rate"], ["is_wide"]),
        node("If", ["is_wide"], ["y"], **branches),
    ]
    constants: dict[str, Any] = {"rate": np.array(16000), "zero": np.array([0])}
    constants |= {n: np.array([i]) for i, n in enumerate(("one", "two", "three"), 1)}
    inputs = [value("x", ["batch", "time"]), value("sr", [], TensorProto.INT64)]
    data: bytes = graph(nodes, inputs, [value("y", [1, "n"])], constants).SerializeToString()
    return data


@pytest.mark.parametrize(("rate", "length"), [(16000, 2), (8000, 3)])
def test_a_value_decides_a_branch(rate: int, length: int) -> None:
    data = fix_inputs(by_rate(), "m.onnx", {"sr": rate}, {"batch": 1, "time": 5})
    _, interface = import_model(data, "m.onnx", {})
    assert [t.name for t in interface.inputs] == ["x"]
    assert interface.inputs[0].shape == (1, 5)
    assert interface.outputs[0].shape == (1, length)
    x = np.arange(5, dtype="float32")[None]
    np.testing.assert_array_equal(run_reference(data, [{"x": x}]).outputs[0][0], x[:, :length])


@pytest.mark.parametrize(
    ("stated", "shape", "expected"),
    [
        (3, [2], [3, 3]),
        ([1, 2], ["n"], [1, 2]),
        (2.5, ["n", 2], [[2.5, 2.5]]),
        ([1, 2], [2, 1], [[1], [2]]),
    ],
)
def test_a_value_gets_the_input_s_type_and_shape(stated: Any, shape: Any, expected: Any) -> None:
    model = graph([node("Add", ["x", "v"], ["y"])], [value("x", [2, 2]), value("v", shape)],
                  [value("y", [2, 2])])  # fmt: skip
    fixed = onnx.load_model_from_string(
        fix_inputs(model.SerializeToString(), "m.onnx", {"v": stated}, {})
    )
    array = onnx.numpy_helper.to_array(fixed.graph.initializer[0])
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    ("values", "dimensions", "message"),
    [
        ({"rs": 1}, {}, "inputs: the model has no input 'rs'"),
        ({"sr": 0.5}, {}, "inputs: sr: value 0.5 is not of the input's type, int64"),
        ({"sr": [1, 2]}, {}, r"the value has 2 elements; the input's shape is \[\]"),
        ({}, {"times": 3}, r"no dimension 'times'; use one of their dimensions: batch, time"),
    ],
)
def test_what_does_not_fit_is_rejected(
    values: dict[str, Any], dimensions: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fix_inputs(by_rate(), "m.onnx", values, dimensions)
