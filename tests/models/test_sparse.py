"""Sparse constants become dense constants; large texts and recursive functions are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import chain, graph, node, value


def make_sparse(indices: Any, dims: tuple[int, ...] = (2, 3)) -> onnx.SparseTensorProto:
    values = np.arange(1, len(indices) + 1).astype("float32")
    stored = numpy_helper.from_array(np.array(indices, "int64"), "i")
    return helper.make_sparse_tensor(numpy_helper.from_array(values, "c"), stored, list(dims))


def make_model(sparse: onnx.SparseTensorProto, as_node: bool = False) -> bytes:
    nodes = [node("Add", ["x", "c"], ["y"])]
    if as_node:
        nodes.insert(0, node("Constant", [], ["c"], name="few", sparse_value=sparse))
    model = graph(nodes, [value("x", [2, 3])], [value("y", [2, 3])])
    if not as_node:
        model.graph.sparse_initializer.append(sparse)
    return bytes(model.SerializeToString())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("as_node", [False, True])
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_constants_are_those_of_onnx_runtime(
    indices: Any, as_node: bool, tmp_path: Path
) -> None:
    data, given = make_model(make_sparse(indices), as_node), [{"x": np.zeros((2, 3), "float32")}]
    reference = run_reference(data, given)
    assert reference.runtime.startswith("onnxruntime")
    ((found,),) = run_generated(data, given, tmp_path)
    np.testing.assert_array_equal(found, reference.outputs[0][0])
    np.testing.assert_array_equal(found, [[0, 1, 0], [0, 0, 2]])


def test_sparse_constants_in_a_branch_of_a_function() -> None:
    constant = node("Constant", [], ["c"], sparse_value=make_sparse([1, 5]))
    inner = [constant, node("Add", ["a", "c"], ["q"])]
    branch = helper.make_graph(inner, "branch", [], [value("q", [2, 3])])
    choice = node("If", ["given"], ["b"], then_branch=branch, else_branch=branch)
    model = graph(
        [node("f", ["x", "given"], ["y"], domain="own")],
        [value("x", [2, 3]), value("given", [], onnx.TensorProto.BOOL)],
        [value("y", [2, 3])],
    )
    opsets = [helper.make_opsetid("", 21)]
    model.functions.append(
        helper.make_function("own", "f", ["a", "given"], ["b"], [choice], opsets)
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    _, interface = import_model(model.SerializeToString(), "m.onnx", {})
    assert [tensor.shape for tensor in interface.outputs] == [(2, 3)]


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        (make_sparse([9]), "the sparse constant '(c|few)': .*out of range"),
        (make_sparse([1, 1]), "the sparse constant '(c|few)': .*not in sorted order"),
        (
            make_sparse([1], (2**20, 2**20)),
            r"'(c|few)' has the shape \[1048576, 1048576\]; a dense",
        ),
        (make_sparse([1], (2**62, 2**62)), r"'(c|few)' has the shape \[4611.*\]; a dense"),
    ],
)
@pytest.mark.parametrize("as_node", [False, True])
def test_bad_sparse_constants(sparse: onnx.SparseTensorProto, message: str, as_node: bool) -> None:
    with pytest.raises(UserError, match=message):
        import_model(make_model(sparse, as_node), "m.onnx", {})


def test_a_message_stays_short_if_a_name_has_10_mb() -> None:
    data = chain(node("Relu" * 2_500_000, ["x"], ["y"])).SerializeToString()
    with pytest.raises(UserError, match="No Op registered for ReluRelu") as found:
        import_model(data, "m.onnx", {})
    assert len(str(found.value)) < 2000


def test_an_attribute_of_10_mb_is_ignored() -> None:
    data = chain(node("Relu", ["x"], ["y"], note="A" * 10_000_000)).SerializeToString()
    (note,) = import_model(data, "m.onnx", {})[1].remarks
    assert note == "attributes that ONNX does not define are ignored: note (1 times)"


@pytest.mark.parametrize("calls", [{"f": "f"}, {"f": "g", "g": "f"}])
def test_functions_that_call_themselves(calls: dict[str, str]) -> None:
    model = chain(node("f", ["x"], ["y"], domain="own"))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(
        helper.make_function("own", name, ["a"], ["b"], [node(called, ["a"], ["b"], domain="own")],
                             [helper.make_opsetid("own", 1)])
        for name, called in calls.items()
    )  # fmt: skip
    with pytest.raises(UserError, match="functions must not be recursive"):
        import_model(model.SerializeToString(), "m.onnx", {})
