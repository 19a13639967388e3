"""Indices that divide: TVM's code for a dividend that counts down or has a constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.networks.firmware import assert_exact
from tests.networks.onnx_models import graph, node, value

pytestmark = pytest.mark.needs("gcc")

Step = tuple[str, list[npt.NDArray[Any]], dict[str, Any]]


def numbers(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, "int64")


def reshape(*shape: int) -> Step:
    return "Reshape", [numbers(*shape)], {}


def pick(start: int, step: int, axis: int = 0) -> Step:
    end = 1000 if step > 0 else -1000
    return "Slice", [numbers(n) for n in (start, end, axis, step)], {}


FLATTEN: Step = ("Flatten", [], {})

MOVED: dict[str, tuple[list[int], list[Step], list[int]]] = {
    "reversed behind Flatten": ([2, 3, 4], [FLATTEN, pick(-1, -1, axis=1)], [2, 12]),
    "reversed behind Reshape": ([5], [reshape(1, 1, 5), pick(3, -1, axis=2)], [1, 1, 4]),
    "reversed sums": (
        [2, 3, 4],
        [FLATTEN, ("CumSum", [numbers(1)[0]], {"reverse": 1})],
        [2, 12],
    ),
    "every other of a Tile, reversed": ([4], [("Tile", [numbers(2)], {}), pick(2, -2)], [2]),
    "reversed behind Gather": (
        [6, 2],
        [("Gather", [numbers(3, 0, -1)], {}), reshape(6), pick(-1, -1), reshape(3, 2)],
        [3, 2],
    ),
}


@pytest.mark.parametrize("case", MOVED)
def test_moved_elements_come_from_where_the_model_takes_them(case: str, tmp_path: Path) -> None:
    shape, steps, result = MOVED[case]
    nodes = []
    constants: dict[str, npt.NDArray[Any]] = {}
    for place, (kind, arguments, attributes) in enumerate(steps):
        names = [f"c{place}_{n}" for n in range(len(arguments))]
        constants |= dict(zip(names, arguments, strict=True))
        nodes.append(helper.make_node(kind, [f"t{place}", *names], [f"t{place + 1}"], **attributes))
    float32 = onnx.TensorProto.FLOAT
    made = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("t0", float32, shape)],
        [helper.make_tensor_value_info(f"t{len(steps)}", float32, result)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    assert_exact(model.SerializeToString(), tmp_path, [{"t0": data}])


def test_a_column_that_is_quantized_as_a_row_is_compiled(tmp_path: Path) -> None:
    constants: dict[str, Any] = {
        "c": np.array([[1], [2]], "float32"),
        "n": numbers(1, 1, 2),
        "s": np.float32(0.5),
        "z": np.int8(3),
    }
    nodes = [
        node("Tanh", ["x"], ["t"]),
        node("Add", ["t", "c"], ["a"]),
        node("Reshape", ["a", "n"], ["r"]),
        node("QuantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    outputs = [value("y", [1, 1, 2], onnx.TensorProto.INT8)]
    model = graph(nodes, [value("x", [2, 1])], outputs, constants)
    assert_exact(model.SerializeToString(), tmp_path)
