"""ONNX models that ONNX Runtime accepts, although ONNX's checker or TVM rejects them."""

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
from tests.networks.imported import run_imported
from tests.networks.onnx_models import graph, node, value

INT64 = TensorProto.INT64
Array = np.ndarray[Any, Any]


def compare(model: onnx.ModelProto, folder: Path, *samples: Array) -> None:
    """Compare the results of the generated C and of ONNX Runtime for one sample."""
    data = model.SerializeToString()
    given = {v.name: a for v, a in zip(model.graph.input, samples, strict=True)}
    expected = run_reference(data, [given])
    assert expected.runtime.startswith("onnxruntime")
    for ours, theirs in zip(run_generated(data, [given], folder)[0], expected.outputs[0],
                            strict=True):  # fmt: skip
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def normal(*shape: int) -> Array:
    return np.random.default_rng(4).normal(0, 1, shape).astype("float32")


@pytest.mark.needs("gcc")
def test_nodes_run_in_the_order_of_their_reads(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [node("Neg", ["t"], ["n"]), node("Exp", ["a"], ["t"])], "g", [], [value("n", [2])]
    )
    other = helper.make_graph([node("Identity", ["a"], ["i"])], "h", [], [value("i", [2])])
    nodes = [
        node("Add", ["b", "c"], ["y"]),
        node("If", ["yes"], ["b"], then_branch=inner, else_branch=other),
        node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
        node("Relu", ["x"], ["a"]),
    ]
    model = graph(nodes, [value("x", [2])], [value("y", [2])], {"yes": np.array(True)})
    compare(model, tmp_path, normal(2))


def test_a_cycle_is_rejected() -> None:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]),
             node("Neg", ["x"], ["y"])]  # fmt: skip
    model = graph(nodes, [value("x", [2])], [value("y", [2])])
    with pytest.raises(UserError, match="reads 'b', which depends on its result"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
def test_empty_scales_may_be_next_to_sizes(tmp_path: Path) -> None:
    constants = {"e": np.zeros(0, "float32"), "s": np.array([1, 1, 4, 6])}
    model = graph([node("Resize", ["x", "e", "e", "s"], ["y"])], [value("x", [1, 1, 2, 3])],
                  [value("y", [1, 1, 4, 6])], constants, opset=13)  # fmt: skip
    compare(model, tmp_path, normal(1, 1, 2, 3))


@pytest.mark.needs("gcc")
def test_an_output_needs_no_shape(tmp_path: Path) -> None:
    untyped = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    compare(graph([node("Relu", ["x"], ["y"])], [value("x", [2])], [untyped]), tmp_path, normal(2))


def test_an_output_needs_no_type() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("ArgMax", ["r"], ["y"], axis=1, keepdims=0)]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("r", "y")]
    outputs[1].type.SetInParent()  # an empty type, which ONNX Runtime also accepts
    data = graph(nodes, [value("x", [2, 3])], outputs).SerializeToString()
    x = normal(2, 3)
    (reference,) = run_reference(data, [{"x": x}]).outputs
    np.testing.assert_array_equal(reference[1], np.maximum(x, 0).argmax(1))
    _, interface = import_model(data, "m.onnx", {})
    assert [(o.dtype, o.shape) for o in interface.outputs] == [("float32", (2, 3)), ("int64", (2,))]


def test_a_negative_length_is_open() -> None:
    model = graph([node("Relu", ["x"], ["y"])], [value("x", [-1, 3])], [value("y", [-1, 3])])
    _, interface = import_model(model.SerializeToString(), "m.onnx", {"x": (2, 3)})
    assert interface.outputs[0].shape == (2, 3)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("opset", [9, 10, 13])
def test_results_that_nothing_reads_are_left_out(opset: int, tmp_path: Path) -> None:
    nodes = [
        node("Dropout", ["x"], ["d", "mask"]),
        node("MaxPool", ["d"], ["y", "places"], kernel_shape=[2, 2]),
    ]
    nodes[1].attribute.append(onnx.AttributeProto(name="pads", type=onnx.AttributeProto.INTS))
    model = graph(nodes, [value("x", [1, 2, 4, 4])], [value("y", [1, 2, 3, 3])], {}, opset)
    compare(model, tmp_path, normal(1, 2, 4, 4))


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMean", "ReduceL1"])
def test_an_empty_list_of_axes_is_the_default(operator: str, tmp_path: Path) -> None:
    reduce = node(operator, ["x"], ["y"], keepdims=0)
    axes = onnx.AttributeProto(name="axes", type=onnx.AttributeProto.INTS)
    reduce.attribute.append(axes)
    compare(graph([reduce], [value("x", [2, 3])], [value("y", [])], {}, 13), tmp_path, normal(2, 3))


@pytest.mark.needs("gcc")
def test_the_axis_of_an_unsqueeze_is_a_scalar(tmp_path: Path) -> None:
    nodes = [node("Unsqueeze", ["x", "axis"], ["y"])]
    model = graph(nodes, [value("x", [2, 3])], [value("y", [2, 3, 1])], {"axis": np.array(-1)})
    compare(model, tmp_path, normal(2, 3))


@pytest.mark.parametrize("operator", ["Squeeze", "ReduceSum", "ReduceMax", "ReduceL1"])
def test_the_axes_of_other_operators_are_a_vector(operator: str) -> None:
    nodes = [node(operator, ["x", "axis"], ["y"])]
    model = graph(nodes, [value("x", [2, 1])], [value("y", [2])], {"axis": np.array(-1)})
    with pytest.raises(UserError, match=rf"{operator} .*axes are the scalar -1; expected a vector"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
def test_the_shape_of_an_expand_is_a_scalar(tmp_path: Path) -> None:
    nodes = [node("Expand", ["x", "shape"], ["y"])]
    model = graph(nodes, [value("x", [1])], [value("y", [3])], {"shape": np.array(3)})
    compare(model, tmp_path, normal(1))


def test_the_limits_of_a_slice_are_vectors() -> None:
    constants = {"begin": np.array([1]), "end": np.array(3)}
    nodes = [node("Slice", ["x", "begin", "end"], ["y"])]
    model = graph(nodes, [value("x", [4])], [value("y", [2])], constants)
    with pytest.raises(UserError, match="its ends are the scalar 3; expected a vector"):
        import_model(model.SerializeToString(), "m.onnx", {})


def test_the_nodes_of_a_function_may_be_unsorted() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[2] x) => (float[2] y) { y = own.f(x) }
        <domain: "own", opset_import: ["" : 17]> f (a) => (c) { c = Exp(b) b = Neg(a) }""")
    x = normal(2)
    (found,) = run_imported(model.SerializeToString(), x)
    np.testing.assert_allclose(found, np.exp(-x), 1e-6)


def test_the_axis_of_a_cumulative_sum_is_a_constant() -> None:
    inputs = [value("x", [2, 3]), value("axis", [], INT64)]
    model = graph([node("CumSum", ["x", "axis"], ["y"])], inputs, [value("y", [2, 3])])
    with pytest.raises(UserError, match=r"CumSum .*its axis is known only at run time"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.parametrize("slopes", [[3], [2, 3, 2], [1, 2, 3, 2, 3]])
def test_slopes_that_are_not_broadcast_are_rejected(slopes: list[int]) -> None:
    model = graph([node("PRelu", ["x", "s"], ["y"])], [value("x", [2, 3, 2, 4])],
                  [value("y", [2, 3, 2, 4])], {"s": normal(*slopes)})  # fmt: skip
    with pytest.raises(UserError, match=r"PRelu.*its slopes have shape .* broadcast to"):
        import_model(model.SerializeToString(), "m.onnx", {})


def test_branches_have_as_many_results_as_the_if() -> None:
    branch = helper.make_graph([node("Neg", ["x"], ["n"])], "g", [], [value("n", [2])])
    pair = [node("Neg", ["x"], ["m"]), node("Abs", ["x"], ["k"])]
    wide = helper.make_graph(pair, "h", [value("v", [2])], [value("m", [2]), value("k", [2])])
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=wide)]
    model = graph(nodes, [value("x", [2]), value("c", [], TensorProto.BOOL)], [value("y", [2])])
    with pytest.raises(UserError, match="else_branch has 1 inputs and 2 outputs; the If has 1"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("left", "right"),
    [([3], [3, 4]), ([2, 3], [3]), ([3], [3]), ([3], [2, 3, 4]), ([2, 2, 3], [3])],
)
def test_integers_are_multiplied_by_vectors(
    left: list[int], right: list[int], tmp_path: Path
) -> None:
    product = node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])
    inputs = [value("a", left, TensorProto.UINT8), value("b", right, TensorProto.INT8)]
    random = np.random.default_rng(1)
    given = {"a": random.integers(0, 256, left, "uint8")}
    given["b"] = random.integers(-128, 128, right, "int8")
    # ONNX Runtime saturates sums of two products on processors without VNNI.
    expected = (given["a"].astype(int) - 7) @ (given["b"].astype(int) + 3)
    output = value("y", expected.shape, TensorProto.INT32)
    model = graph([product], inputs, [output], {"za": np.uint8(7), "zb": np.int8(-3)})
    found = run_generated(model.SerializeToString(), [given], tmp_path)[0][0]
    np.testing.assert_array_equal(found, expected)


def test_results_without_a_name_are_computed() -> None:
    nodes = [
        node("Split", ["x"], ["a", "", "c"], axis=1, num_outputs=3),
        node("Add", ["a", "c"], ["sum"]),
        node("TopK", ["x", "one"], ["", "y"], sorted=0),
        node("DynamicQuantizeLinear", ["x"], ["", "scale", ""]),
    ]
    outputs = [value("sum", [2, 2]), value("y", [2, 1], INT64), value("scale", [])]
    model = graph(nodes, [value("x", [2, 6])], outputs, {"one": np.array([1])})
    x = normal(2, 6)
    data = model.SerializeToString()
    (reference,) = run_reference(data, [{"x": x}]).outputs
    np.testing.assert_array_equal(reference[0], x[:, :2] + x[:, 4:])
    for ours, theirs in zip(run_imported(data, x), reference, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_largest_elements_need_an_order() -> None:
    nodes = [node("TopK", ["x", "k"], ["v", "y"], sorted=0)]
    model = graph(nodes, [value("x", [4])], [value("y", [2], INT64)], {"k": np.array([2])})
    with pytest.raises(
        UserError, match=r"TopK .*order of its results is undefined; export the model with sorted=1"
    ):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.parametrize("axis", [None, 1])
def test_a_constant_condition_compresses(axis: int | None) -> None:
    nodes = [node("Compress", ["x", "c"], ["y"], axis=axis)]
    condition, x = np.array([True, False, True]), normal(2, 4)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = graph(nodes, [value("x", [2, 4])], [output], {"c": condition})
    (found,) = run_imported(model.SerializeToString(), x)
    np.testing.assert_array_equal(found, np.compress(condition, x, axis))


def test_an_unread_node_without_required_results_is_left_out() -> None:
    operands = {"w": normal(1, 8, 3), "r": normal(1, 8, 2)}
    nodes = [
        node("LSTM", ["x", "w", "r"], ["", "h", ""], hidden_size=2),
        node("Relu", ["x"], ["y"]),
    ]
    model = graph(nodes, [value("x", [4, 1, 3])], [value("y", [4, 1, 3])], operands)
    x = normal(4, 1, 3)
    (found,) = run_imported(model.SerializeToString(), x)
    np.testing.assert_array_equal(found, np.maximum(x, 0))
