"""Loops, branches and sequences that the import resolves, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import graph, node, value

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
X = np.arange(6, dtype="float32").reshape(2, 3) - 2


def body(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str]) -> onnx.GraphProto:
    """Return a graph within a graph."""
    ports = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(nodes, "body", inputs, ports)


def compare(model: onnx.ModelProto, samples: list[dict[str, Any]], folder: Path) -> None:
    data = model.SerializeToString()
    expected = run_reference(data, samples)
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, samples, folder)
    for mine, theirs in zip(found, expected.outputs, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, 1e-6)


def make_if(operator: str = "Mul") -> onnx.ModelProto:
    """Return a model that selects a branch by an input; both branches use one name for tensors."""
    attributes: dict[str, Any] = {"axis": 0} if operator == "Concat" else {}
    operands = ["x"] if operator == "IsNaN" else ["x", "x"]
    sides = {
        "then_branch": body([node(operator, operands, ["r"], **attributes)], [], ["r"]),
        "else_branch": body([node("Neg", ["x"], ["r"])], [], ["r"]),
    }
    inputs = [value("x", [2, 3]), value("yes", [], BOOL)]
    return graph([node("If", ["yes"], ["y"], "choice", **sides)], inputs, [value("y", [2, 3])])


@pytest.mark.needs("gcc")
def test_both_branches_are_computed_and_one_is_chosen(tmp_path: Path) -> None:
    samples = [{"x": X, "yes": np.array(yes)} for yes in (True, False)]
    compare(make_if(), samples, tmp_path)


def make_loop(limit: str = "three") -> onnx.ModelProto:
    """Return a model that adds x until the fifth step, and collects the sums."""
    step = body(
        [
            node("Add", ["sum_in", "x"], ["sum_out"]),
            node("Less", ["step", "four"], ["goes_out"]),
            node("Identity", ["sum_out"], ["shown"]),
        ],
        [value("step", [], INT64), value("goes", [], BOOL), value("sum_in", [2, 3])],
        ["goes_out", "sum_out", "shown"],
    )
    nodes = [node("Loop", [limit, "", "x"], ["y", "all"], "sum", body=step)]
    constants = {"three": np.array(3), "four": np.array(4)}
    inputs = [value("x", [2, 3])]
    if limit and limit not in constants:
        inputs.append(value(limit, [], INT64))
    outputs = [value("y", [2, 3]), value("all", ["n", 2, 3])]
    return graph(nodes, inputs, outputs, constants)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("limit", ["three", ""])
def test_loop_is_written_out(tmp_path: Path, limit: str) -> None:
    compare(make_loop(limit), [{"x": X}], tmp_path)


def make_search(*results: str, limit: str = "five") -> onnx.ModelProto:
    """Return a model that doubles x, at most five times, until an element exceeds 9."""
    step = body(
        [
            node("Add", ["x_in", "x_in"], ["x_out"]),
            node("Add", ["step", "sum_in"], ["sum_out"]),
            node("ReduceMax", ["x_out"], ["largest"]),
            node("Less", ["largest", "nine"], ["goes_out"]),
            node("Identity", ["sum_out"], ["shown"]),
        ],
        [value("step", [], INT64), value("goes", [], BOOL), value("x_in", [2, 3]),
         value("sum_in", [], INT64)],
        ["goes_out", "x_out", "sum_out", *(["shown"] if results else [])],
    )  # fmt: skip
    nodes = [node("Loop", [limit, "start", "x", "zero"], ["y", "sum", *results], "find", body=step)]
    inputs = [value("x", [2, 3]), value("start", [], BOOL)]
    outputs = [value("y", [2, 3]), value("sum", [], INT64)]
    constants = {"five": np.array(5), "nine": np.array(9, "float32"), "zero": np.array(0)}
    return graph(nodes, inputs, outputs, constants)


@pytest.mark.needs("gcc")
def test_states_do_not_change_after_the_end_of_a_loop(tmp_path: Path) -> None:
    pairs = [(X, True), (X, False), (X * 4, True), (-abs(X), True)]
    samples = [{"x": x, "start": np.array(start)} for x, start in pairs]
    compare(make_search(), samples, tmp_path)


@pytest.mark.needs("gcc")
def test_sequences_are_lists_of_tensors(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x", "parts"], ["s"], axis=1),
        node("SequenceInsert", ["s", "x", "one"], ["more"]),
        node("SequenceErase", ["more"], ["less"]),
        node("SequenceLength", ["less"], ["n"]),
        node("SequenceAt", ["less", "one"], ["second"]),
        node("ConcatFromSequence", ["less"], ["joined"], axis=1),
        node("SequenceConstruct", ["x", "second"], ["pair"]),
        node("Optional", ["pair"], ["maybe"]),
        node("OptionalGetElement", ["maybe"], ["again"]),
        node("OptionalHasElement", ["maybe"], ["there"]),
        node("ConcatFromSequence", ["again"], ["stacked"], axis=0, new_axis=1),
    ]
    outputs = [value("n", [], INT64), value("second", [2, 3]), value("joined", [2, 4]),
               value("there", [], BOOL), value("stacked", [2, 2, 3])]  # fmt: skip
    constants = {"parts": np.array([1, 2]), "one": np.array(1)}
    compare(graph(nodes, [value("x", [2, 3])], outputs, constants, 18), [{"x": X}], tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (make_loop("n"), r"Loop \(node 'sum'\): 'n' is known only at run time; firmware needs a "),
        (make_search("all"), r"Loop \(node 'find'\): it collects a result of each step, but its "),
        (make_search(limit=""), "its number of steps is known only at run time and has no limit"),
        (make_if("Concat"), r"If \(node 'choice'\): the shape of 'y' is known only at run time"),
        (make_if("IsNaN"), "its branches return 'y' as bool and as float32; export both with one"),
        (
            graph([node("Pad", ["x", "n"], ["y"])], [value("x", [2]), value("n", [2], INT64)],
                  [value("y", ["length"])]),
            r"Pad \(node 'y'\): its input 'pads' is known only at run time, but firmware needs",
        ),
        (
            graph([node("SequenceConstruct", ["x"], ["s"])], [value("x", [2])],
                  [onnx.helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)]),
            "output 's' is a sequence, not a tensor: end the model with SequenceAt",
        ),
    ],
)  # fmt: skip
def test_what_only_run_time_tells_is_refused(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_model(model.SerializeToString(), "m.onnx", {})


def test_logic_of_numbers_is_refused() -> None:
    model = graph([node("Not", ["x"], ["y"])], [value("x", [2])], [value("y", [2], BOOL)])
    with pytest.raises(UserError, match="its input is float32; expected a Boolean"):
        import_model(model.SerializeToString(), "m.onnx", {})


def test_branches_that_may_fail_are_refused() -> None:
    sides = {
        "then_branch": body([node("Div", ["x", "d"], ["r"])], [], ["r"]),
        "else_branch": body([node("Identity", ["x"], ["r"])], [], ["r"]),
    }
    inputs = [value("x", [2], INT64), value("d", [2], INT64), value("yes", [], BOOL)]
    model = graph([node("If", ["yes"], ["y"], **sides)], inputs, [value("y", [2], INT64)])
    with pytest.raises(UserError, match=r"one of its branches has a Div \(node 'y'\), which is"):
        import_model(model.SerializeToString(), "m.onnx", {})
