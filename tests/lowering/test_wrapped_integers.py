"""Sums that wrap around, and the operators after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.networks.firmware import SANITIZED, assert_exact, run_generated

pytestmark = pytest.mark.needs("gcc")


def test_a_sum_of_int32_keeps_a_clamp_below_zero(tmp_path: Path) -> None:
    """From a cast to unsigned, TVM concludes that a number was not negative."""
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


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_a_short_integer_wraps_before_it_is_compared(
    tmp_path: Path, operator: str, dtype: str
) -> None:
    """C computes the result as int, which keeps the bits above the type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node(operator, ["a", "b"], ["made"]),
        helper.make_node("Greater", ["made", "a"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, kind, [64]) for name in ("a", "b")]
    result = helper.make_tensor_value_info("y", TensorProto.BOOL, [64])
    graph = helper.make_graph(nodes, "graph", ends, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    a, b = random.integers(limits.min, limits.max, (2, 64), dtype, endpoint=True)
    assert_exact(model.SerializeToString(), tmp_path, [{"a": a, "b": b}])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_a_negative_number_is_an_operand(tmp_path: Path, operator: str, dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "c"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", kind, [4])],
        [helper.make_tensor_value_info("y", kind, [4])],
        [numpy_helper.from_array(np.array(-125, dtype), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    limits = np.iinfo(dtype)
    values = np.array([limits.min, -7, 9, limits.max], dtype)
    assert_exact(model.SerializeToString(), tmp_path, [{"x": values}])


Array = npt.NDArray[Any]

OVERFLOWING: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "ReduceSum": lambda x: x.sum(keepdims=True, dtype=x.dtype),
    "ReduceProd": lambda x: x.prod(keepdims=True, dtype=x.dtype),
    "ReduceL1": lambda x: np.abs(x).sum(keepdims=True, dtype=x.dtype),
    "ReduceSumSquare": lambda x: (x * x).sum(keepdims=True, dtype=x.dtype),
    "CumSum": lambda x: x.cumsum(1, dtype=x.dtype),
    "MatMul": lambda x: x @ x,
}
"""Results of operators whose integers wrap in numpy; ONNX Runtime saturates some of them."""


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_what_overflows_wraps_around(tmp_path: Path, dtype: str) -> None:
    """Overflow is undefined in C, so compilers assume that it does not happen."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (4, 4), dtype)
    x[0, :2] = limits.min
    results = {name: compute(x) for name, compute in OVERFLOWING.items()}
    others = {"CumSum": ["axis"], "MatMul": ["x"]}
    nodes = [
        helper.make_node(name, ["x", *others.get(name, [])], [name], name=name) for name in results
    ]
    nodes.append(helper.make_node("Greater", ["Abs", "minus_one"], ["greater"]))
    results["greater"] = np.abs(x) > -1
    nodes.append(helper.make_node("Sub", ["minus_one", "x"], ["less_than_zero"]))
    results["less_than_zero"] = -1 - x
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
            for n, y in results.items()
        ],
        [
            numpy_helper.from_array(np.array(1), "axis"),
            numpy_helper.from_array(np.array(-1, dtype), "minus_one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = run_generated(model.SerializeToString(), [{"x": x}], tmp_path, SANITIZED)
    for name, ours, expected in zip(results, found, results.values(), strict=True):
        np.testing.assert_array_equal(ours, expected, name)


@pytest.mark.parametrize(
    ("dtype", "opset"), [("int32", 13), ("int32", 18), ("int64", 18), ("uint8", 13), ("int16", 18)]
)
def test_a_mean_of_integers_is_rounded_toward_zero(tmp_path: Path, dtype: str, opset: int) -> None:
    x = np.array([[3, 1, 0, 1], [2, 2, 1, 2], [9, 9, 9, 8], [0, 0, 0, 1]], dtype)
    if dtype == "int32":
        x[3] = np.iinfo(dtype).max
    negative = x if dtype.startswith("u") else -x
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    in_attribute = opset < 18
    node = helper.make_node(
        "ReduceMean", ["x"] if in_attribute else ["x", "axes"], ["y"], keepdims=0
    )
    if in_attribute:
        node.attribute.append(helper.make_attribute("axes", [1]))
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", kind, [4, 4])],
        [helper.make_tensor_value_info("y", kind, [4])],
        [] if in_attribute else [numpy_helper.from_array(np.array([1]), "axes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    assert_exact(model.SerializeToString(), tmp_path, [{"x": x}, {"x": negative}])
