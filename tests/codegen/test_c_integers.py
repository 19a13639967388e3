"""Integers for which C compilers would warn, or compute in more bits than the type has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.onnxruntime_outputs import run_reference
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import executed, lowered

COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def make_model(dtype: str) -> bytes:
    """Return a model with outputs that are always true, and outputs of few bits."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    limits = np.iinfo(dtype)
    nodes, kinds = [], {}

    def add(operator: str, *inputs: str, result: int = kind, **attributes: Any) -> str:
        name = f"{operator}_{'_'.join(inputs)}"
        nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        kinds[name] = result
        return name

    for operator in COMPARISONS:
        for inputs in (("x", "x"), ("x", "least"), ("greatest", "x")):
            add(operator, *inputs, result=TensorProto.BOOL)
    for made in (
        add("Max", "x", "x"), add("Min", "x", "x"), add("Mul", "x", "x"), add("BitwiseNot", "x"),
        add("BitwiseXor", "x", "greatest"), add("Sub", "x", "least"),
    ):  # fmt: skip
        add("Cast", made, to=TensorProto.BOOL, result=TensorProto.BOOL)
        add("Greater", made, "x", result=TensorProto.BOOL)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, [16])],
        [helper.make_tensor_value_info(name, type_, [16]) for name, type_ in kinds.items()],
        [
            numpy_helper.from_array(np.array(number, dtype), name)
            for name, number in (("least", limits.min), ("greatest", limits.max))
        ],
    )
    opset = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def run_with(compiler: str, data: bytes, x: npt.NDArray[Any], folder: Path) -> list[Any]:
    network = lowered(data)
    build = Build(load_toolchain(compiler), load_platform("host"))
    ran = executed(network, [{"x": x}], folder, build=build)
    return decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)[0]


@pytest.mark.parametrize(
    "compiler", [pytest.param(c, marks=pytest.mark.needs(c)) for c in ("gcc", "clang")]
)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int32", "uint64"])
def test_integers_compile_without_a_warning(compiler: str, dtype: str, tmp_path: Path) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, 16, dtype, endpoint=True)
    x[:3] = limits.min, limits.max, 0
    data = make_model(dtype)
    expected = run_reference(data, [{"x": x}]).outputs[0]
    for ours, theirs in zip(run_with(compiler, data, x, tmp_path), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.needs("gcc")
def test_a_product_of_floats_is_true_where_it_is_not_zero(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=TensorProto.BOOL),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [4])
    graph = helper.make_graph(nodes, "graph", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    values = np.array([0, 2, np.nan, -1e-30], "float32")
    (found,) = run_with("gcc", model.SerializeToString(), values, tmp_path)
    assert found.tolist() == [False, True, True, False]
