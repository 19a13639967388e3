"""NonMaxSuppression with a result of fixed length, and the operators after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from firmwright.models.onnx.onnxruntime_outputs import read_tensors
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import graph, node, value

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
    return graph([first, *after], INPUTS, [value("y", ["n", 3], INT64)], constants, opset)


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
def test_boxes_that_an_ssd_selects_are_exact(tmp_path: Path) -> None:
    images = np.random.default_rng(2).integers(0, 9, (3, 1, 3, 8, 8)).astype("float32")
    data, samples = make_ssd(), [{"x": image} for image in images]
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


REDUCTION = node("ReduceMax", ["y"], ["z"], name="last_box")
JOINED = node("Concat", ["y", "y"], ["z"], name="twice", axis=0)


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
            graph([node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="nms")],
                  [*INPUTS, value("k", [1], INT64)], [value("y", ["n", 3], INT64)]),
            r"\(node 'nms'\): max_output_boxes_per_class \('k'\) is known only at run time",
        ),
    ],
)  # fmt: skip
def test_results_without_a_bound_are_rejected(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_model(model.SerializeToString(), "m.onnx", {})
