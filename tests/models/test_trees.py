"""Ensembles of decision trees as scikit-learn's converter writes them, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated

FEATURES, ROWS = 5, 6
PLAIN, MIXED = ["BRANCH_LEQ"], ["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def make_forest(kind: str, results: int, modes: list[str], least: float = -1) -> dict[str, Any]:
    """Return the attributes of four random trees whose leaves have weights of each result."""
    random = np.random.default_rng(5)
    nodes: list[tuple[int, int, int, float, str, int, int, int]] = []
    weights: list[tuple[int, int, int, float]] = []

    def grow(tree: int, depth: int) -> int:
        label = sum(node[0] == tree for node in nodes)
        place = len(nodes)
        feature, value = int(random.integers(FEATURES)), float(random.integers(-2, 3)) / 2
        mode, lost = str(random.choice(modes)), int(random.integers(2))
        if depth == 0 or random.random() < 0.2:
            nodes.append((tree, label, 0, 0.0, "LEAF", 0, 0, 0))
            for result in range(results):
                weights.append((tree, label, result, float(random.uniform(least, 1)) / 4))
        else:
            nodes.append((tree, label, feature, value, mode, 0, 0, lost))
            ends = grow(tree, depth - 1), grow(tree, depth - 1)
            nodes[place] = (tree, label, feature, value, mode, *ends, lost)
        return label

    for tree in range(4):
        grow(tree, tree + 1)
    names = ("treeids nodeids featureids values modes truenodeids falsenodeids "
             "missing_value_tracks_true")  # fmt: skip
    return name_columns("nodes", names, nodes) | name_columns(
        kind, "treeids nodeids ids weights", weights
    )


def name_columns(prefix: str, names: str, rows: list[Any]) -> dict[str, Any]:
    columns = zip(*rows, strict=True)
    return {f"{prefix}_{n}": list(c) for n, c in zip(names.split(), columns, strict=True)}


def make_model(operator: str, dtype: str = "float32", **attributes: Any) -> bytes:
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, "results"])]
    if operator == "TreeEnsembleClassifier":
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, [ROWS]))
    names = [o.name for o in outputs]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], names, "trees", domain="ai.onnx.ml", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", kind, [ROWS, FEATURES])],
        outputs,
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 3)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def classify(results: int, known: int, least: float = -1, **attributes: Any) -> dict[str, Any]:
    forest = make_forest("class", known, PLAIN, least)
    return {"operator": "TreeEnsembleClassifier", **forest,
            "classlabels_int64s": [7, 8, 9][:results], **attributes}  # fmt: skip


def regress(results: int, modes: list[str], **attributes: Any) -> dict[str, Any]:
    forest = make_forest("target", results, modes)
    return {"operator": "TreeEnsembleRegressor", **forest, "n_targets": results, **attributes}


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "settings",
    [
        regress(1, PLAIN, base_values=[0.25]),
        regress(2, MIXED, aggregate_function="AVERAGE"),
        regress(2, MIXED, aggregate_function="MAX", dtype="float64"),
        classify(2, 1, 0.0),
        classify(2, 1, -1.0, base_values=[0.125], post_transform="LOGISTIC"),
        classify(3, 3, -1.0, base_values=[0.5, 0.25, 0.125], post_transform="SOFTMAX"),
    ],
    ids=["sum", "average", "maximum", "probability", "boosted", "several"],
)
def test_trees_equal_onnx_runtime(tmp_path: Path, settings: dict[str, Any]) -> None:
    data = make_model(**settings)
    random = np.random.default_rng(1)
    # Halves, so that some values equal the limits of comparisons.
    x = random.integers(-3, 4, (ROWS, FEATURES)).astype(settings.get("dtype", "float32")) / 2
    x[0, 1] = np.nan
    expected = run_reference(data, [{"x": x}])
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, [{"x": x}], tmp_path)
    for ours, theirs in zip(found[0], expected.outputs[0], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (classify(2, 2), "ONNX Runtime and ONNX compute different results"),
        (classify(3, 2), r"weights of the classes \[0, 1\], 0 base values"),
        (regress(1, PLAIN, post_transform="LOGISTIC"), "one result and a post_transform, LOGISTIC"),
        (regress(3, PLAIN) | {"n_targets": 4}, r"for the results \[0, 1, 2\]; expected .* 0 to 3"),
        (regress(1, PLAIN) | {"nodes_truenodeids": [9] * 100}, "a missing node"),
    ],
)
def test_trees_that_are_not_computed_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=rf"\(node 'trees'\): .*{sentence}"):
        import_model(make_model(**settings), "m.onnx", {})
