"""NonMaxSuppression with a result of fixed length, and the operators after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from firmwright.models.onnx.onnxruntime_outputs import read_tensors
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.qdq_graph import quantize
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import graph, node, value
from tests.quantize.networks import options, ready

INT64 = onnx.TensorProto.INT64
INPUTS = [value("b", [2, 9, 4]), value("s", [2, 3, 9])]


def draw(seed: int) -> dict[str, Any]:
    """Return boxes on a coarse raster, and scores with equal values."""
    chosen = np.random.default_rng(seed)
    boxes, scores = chosen.integers(0, 5, (2, 9, 4)), chosen.integers(0, 6, (2, 3, 9))
    return {"b": (boxes / 4).astype("float32"), "s": (scores / 5).astype("float32")}


def suppress(
    names: str, after: tuple[onnx.NodeProto, ...] = (), opset: int = 21, **constants: Any
) -> onnx.ModelProto:
    """Return a suppression of these inputs, and operators after it."""
    first = node("NonMaxSuppression", names.split(), ["y"], name="nms", center_point_box=opset % 2)
    results = [helper.make_empty_tensor_value_info(name) for n in after for name in n.output]
    outputs = [value("y", ["n", 3], INT64), *results]
    return graph([first, *after], INPUTS, outputs, constants, opset)


LIMITS: dict[str, Any] = {
    "k": np.array([4], "int64"), "iou": np.array(0.3, "float32"), "least": np.array(0.2, "float32"),
}  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("names", "opset", "changed"),
    [
        ("b s k iou least", 10, {}),
        ("b s k iou least", 21, {}),
        ("b s k iou", 21, {"k": np.array(2**40)}),
        ("b s k", 10, {"k": np.array(1)}),
    ],
)
def test_rows_and_their_number_equal_onnx_runtime(
    names: str, opset: int, changed: dict[str, Any], tmp_path: Path
) -> None:
    model = suppress(names, (), opset, **{k: v for k, v in LIMITS.items() if k in names} | changed)
    data, samples = model.SerializeToString(), [draw(seed) for seed in range(3)]
    session = onnxruntime.InferenceSession(data)
    reference = run_reference(data, samples)
    assert reference.runtime.startswith("onnxruntime")
    for sample, judge, (rows, count) in zip(
        samples, reference.outputs, run_generated(data, samples, tmp_path), strict=True
    ):
        (found,) = session.run(None, sample)
        assert count == [len(found)]
        assert 0 < len(found) <= len(rows)
        np.testing.assert_array_equal(rows[: len(found)], found)
        assert (rows[len(found) :] == -1).all()
        for ours, theirs in zip((rows, count), judge, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def make_ssd() -> bytes:
    """Return a network of whole numbers: two heads on an image, and the boxes that it selects."""
    chosen = np.random.default_rng(1)
    weights = {
        "w_box": chosen.integers(-4, 5, (8, 3, 3, 3)),
        "w_score": chosen.integers(-4, 5, (6, 3, 3, 3)),
    }
    constants: dict[str, Any] = {k: v.astype("float32") for k, v in weights.items()} | {
        "k": np.array([3], "int64"), "iou": np.array([0.4], "float32"),
        "least": np.array([100], "float32"), "boxes_to": np.array([1, 2, 4, 16], "int64"),
        "rows_to": np.array([1, 32, 4], "int64"), "scores_to": np.array([1, 3, 32], "int64"),
        "last": np.array(2, "int64"), "first": np.array([0], "int64"),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w_box"], ["box"], strides=[2, 2], pads=[1] * 4, name="box_head"),
        node("Conv", ["x", "w_score"], ["score"], strides=[2, 2], pads=[1] * 4, name="score_head"),
        node("Reshape", ["box", "boxes_to"], ["anchors"]),
        node("Transpose", ["anchors"], ["moved"], perm=[0, 1, 3, 2]),
        node("Reshape", ["moved", "rows_to"], ["b"]),
        node("Reshape", ["score", "scores_to"], ["s"]),
        node("NonMaxSuppression", [*"bsk", "iou", "least"], ["kept"], name="nms"),
        node("Gather", ["kept", "last"], ["which"], axis=1),
        node("Squeeze", ["b", "first"], ["all"]),
        node("Gather", ["all", "which"], ["objects"], axis=0),
    ]
    outputs = [value("objects", ["n", 4]), value("kept", ["n", 3], INT64)]
    return bytes(graph(nodes, [value("x", [1, 3, 8, 8])], outputs, constants).SerializeToString())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("quantized", [False, True])
def test_boxes_that_an_ssd_selects_are_exact(quantized: bool, tmp_path: Path) -> None:
    images = np.random.default_rng(2).integers(0, 9, (3, 1, 3, 8, 8)).astype("float32")
    data, samples = make_ssd(), [{"x": image} for image in images]
    if quantized:
        model = ready(data)
        data = quantize(model, calibrate(model, samples), options(), samples).SerializeToString()
    expected = run_reference(data, samples).outputs
    for ours, theirs in zip(run_generated(data, samples, tmp_path), expected, strict=True):
        objects, kept, count = ours
        assert (objects.shape, kept.shape) == ((9, 4), (9, 3))
        assert 0 < count[0] < 9
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    assert "kept" in read_tensors(data, samples)[0]


def test_a_note_names_the_output_with_the_number_of_boxes() -> None:
    data = suppress("b s k", k=LIMITS["k"]).SerializeToString()
    (note,) = import_model(data, "m.onnx", {})[1].remarks
    assert "output 'y_count' has the number of selected boxes" in note


def test_the_added_output_has_a_free_name() -> None:
    model = suppress("b s k", (node("Relu", ["s"], ["y_count"]),), k=LIMITS["k"])
    outputs = import_model(model.SerializeToString(), "m.onnx", {})[1].outputs
    assert [tensor.name for tensor in outputs] == ["y", "y_count", "y_count_"]


def test_rows_that_reach_no_output_are_not_computed() -> None:
    model = suppress("b s k", (REDUCTION, node("Relu", ["s"], ["scores"])), k=LIMITS["k"])
    del model.graph.output[:2]
    interface = import_model(model.SerializeToString(), "m.onnx", {})[1]
    assert ([t.name for t in interface.outputs], interface.remarks) == (["scores"], ())


def of_other_package() -> onnx.ModelProto:
    """Return a suppression that another package defines."""
    model = suppress("b s k", k=LIMITS["k"])
    model.graph.node[0].domain = "mmcv"
    model.opset_import.append(helper.make_opsetid("mmcv", 1))
    return model


def of_type(kind: int) -> onnx.ModelProto:
    """Return a suppression of boxes and scores of a type."""
    first = node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="nms")
    inputs = [value("b", [2, 9, 4], kind), value("s", [2, 3, 9], kind)]
    return graph([first], inputs, [value("y", ["n", 3], INT64)], {"k": LIMITS["k"]})


REDUCTION = node("ReduceMax", ["y"], ["z"], name="last_box")
JOINED = node("Concat", ["y", "y"], ["z"], name="twice", axis=0)
SIZES = {"last": np.array([-1]), "none": np.array([9**9]), "rows": np.array([0])}


def branch_on_rows() -> onnx.NodeProto:
    """Return an If whose branches read the rows, but whose inputs do not include them."""
    scalar = helper.make_tensor_value_info("q", INT64, [])
    inner = [node("ReduceMax", ["y"], ["q"], keepdims=0)]
    branch = helper.make_graph(inner, "branch", [], [scalar])
    return node("If", ["given"], ["z"], then_branch=branch, else_branch=branch)


@pytest.mark.parametrize(
    "after",
    [
        [node("Concat", ["y", "y"], ["z"], axis=-2)],
        [node("Slice", ["y", "last", "none", "rows"], ["z"])],
        [node("Slice", ["y", "last", "none"], ["z"])],
        [node("Gather", ["y", "last"], ["z"], axis=0)],
        [node("Gather", ["y", "last"], ["z"], axis=-2)],
        [node("GatherND", ["y", "last"], ["z"])],
        [node("Gather", ["y", "y"], ["z"], axis=1)],
        [node("Split", ["y"], ["z", "other"], num_outputs=2)],
        [node("Reshape", ["y", "last"], ["z"])],
        [node("Transpose", ["y"], ["t"]), node("Concat", ["t", "t"], ["z"], axis=1)],
        [node("Squeeze", ["y"], ["z"])],
        [node("Unsqueeze", ["y", "rows"], ["t"]), node("Concat", ["t", "t"], ["z"], axis=1)],
        [node("Gather", ["y", "rows"], ["t"], axis=-1), node("Mul", ["t", "y"], ["u"]),
         node("Gather", ["s", "u"], ["t2"], axis=1), node("Concat", ["t2", "t2"], ["z"], axis=1)],
        [node("Gather", ["y", "column"], ["t"], axis=1), node("Mul", ["t", "y"], ["z"])],
        [branch_on_rows()],
    ],
)  # fmt: skip
def test_operators_that_mix_rows_are_rejected(after: list[onnx.NodeProto]) -> None:
    first = node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="nms")
    given = [*INPUTS, value("given", [], onnx.TensorProto.BOOL)]
    result = [helper.make_empty_tensor_value_info("z")]
    constants = {"k": LIMITS["k"], "column": np.array(0), **SIZES}
    model = graph([first, *after], given, result, constants)
    refused = after[-1].op_type if after[0].op_type != "Transpose" else "Transpose"
    with pytest.raises(UserError, match=f"operator {refused}.* reads results of .* 'nms'"):
        import_model(model.SerializeToString(), "m.onnx", {})


@pytest.mark.needs("gcc")
def test_operators_that_keep_rows_apart_are_exact(tmp_path: Path) -> None:
    after = [
        node("Slice", ["y", "last", "none", "last"], ["box"]),
        node("Split", ["y", "widths"], ["batch", "class", "rest"], axis=-1),
        node("Squeeze", ["rest", "last"], ["flat"]),
        node("Unsqueeze", ["flat", "last"], ["column"]),
        node("Concat", ["box", "column", "class"], ["joined"], axis=-1),
        node("Cast", ["joined"], ["real"], to=1),
        node("Mul", ["real", "factors"], ["scaled"]),
        node("Gather", ["s", "flat"], ["picked"], axis=-1),
        node("Concat", ["picked", "picked"], ["twice"], axis=1),
        node("GatherND", ["table", "class"], ["classes"]),
    ]
    constants = {
        "k": LIMITS["k"], "widths": np.array([1, 1, 1]), **SIZES,
        "factors": np.array([0.5, 2, 4], "float32"), "table": np.eye(3, dtype="float32"),
    }  # fmt: skip
    first = node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="nms")
    outputs = [helper.make_empty_tensor_value_info(n) for n in ("scaled", "twice", "classes")]
    data = graph([first, *after], INPUTS, outputs, constants).SerializeToString()
    samples = [draw(3)]
    (expected,), (found,) = (
        run_reference(data, samples).outputs,
        run_generated(data, samples, tmp_path),
    )
    assert [one.shape for one in found] == [(24, 3), (2, 6, 24), (24, 3), (1,)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            suppress("b s k", (REDUCTION,), k=LIMITS["k"]),
            r"ReduceMax \(node 'last_box'\): it reads results of NonMaxSuppression 'nms'",
        ),
        (
            suppress("b s k", (JOINED,), k=LIMITS["k"]),
            r"Concat \(node 'twice'\): it reads results of NonMaxSuppression 'nms'",
        ),
        (
            suppress("b b k", k=LIMITS["k"]),
            r"its boxes are \[2, 9, 4\] and its scores are \[2, 9, 4\]; expected \[batches",
        ),
        (suppress("b s"), r"\(node 'nms'\): max_output_boxes_per_class is 0, so it selects no box"),
        (
            suppress("b s k", k=np.array([-5], "int64")),
            r"\(node 'nms'\): max_output_boxes_per_class is -5, so it selects no box",
        ),
        (
            suppress("b s k", k=np.array([], "int64")),
            r"\(node 'nms'\): 'k' has the shape \[0\]; expected one element",
        ),
        (
            suppress("b s k iou", k=LIMITS["k"], iou=np.array([-1], "float32")),
            r"\(node 'nms'\): iou_threshold is -1.0; ONNX Runtime accepts 0 to 1",
        ),
        (of_other_package(), r"cannot be compiled:\n  mmcv.NonMaxSuppression \(node 'nms'\)"),
        (of_type(onnx.TensorProto.FLOAT16), "its boxes are float16 and its scores are float16"),
        (of_type(onnx.TensorProto.DOUBLE), "its boxes are float64 and its scores are float64"),
        (
            graph([node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="nms")],
                  [*INPUTS, value("k", [1], INT64)], [value("y", ["n", 3], INT64)]),
            r"\(node 'nms'\): max_output_boxes_per_class \('k'\) is known only at run time",
        ),
    ],
)  # fmt: skip
def test_results_without_a_bound_are_rejected(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_model(model.SerializeToString(), "m.onnx", {})
