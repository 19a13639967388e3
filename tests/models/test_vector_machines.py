"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import node, value

FEATURES, VECTORS = 3, 2
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 0.25, 3.0],
    "RBF": [0.5, 0.0, 0.0],
    "SIGMOID": [0.25, 0.5, 0.0],
}
"""The parameters of each kernel: gamma, coef0 and degree."""


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(0, 1, shape).astype("float32")


def make(operator: str, kernel: str, **attributes: Any) -> bytes:
    """Return a model of one operator on rows of three features."""
    outputs = [value("y", ["rows", "results"])]
    if operator == "SVMClassifier":
        outputs.insert(0, value("label", ["rows"], TensorProto.INT64))
    made = node(
        operator, ["x"], [o.name for o in outputs], domain="ai.onnx.ml", kernel_type=kernel,
        kernel_params=KERNELS[kernel], **attributes,
    )  # fmt: skip
    graph = helper.make_graph([made], "g", [value("x", [5, FEATURES])], outputs)
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def classify(classes: int, probabilities: bool, **attributes: Any) -> dict[str, Any]:
    """Return the attributes of a classifier; the first class has one more support vector."""
    pairs, sizes = classes * (classes - 1) // 2, [VECTORS + 1, *[VECTORS] * (classes - 1)]
    chosen = {
        "classlabels_ints": list(range(7, 7 + classes)),
        "vectors_per_class": sizes,
        "support_vectors": draw(sum(sizes) * FEATURES),
        "coefficients": draw((classes - 1) * sum(sizes)),
        "rho": draw(pairs) / 4,
    }
    if probabilities:
        chosen |= {"prob_a": -abs(draw(pairs)) - 1, "prob_b": draw(pairs) / 2}
    return chosen | attributes


CASES: dict[str, bytes] = {
    "two classes": make("SVMClassifier", "LINEAR", **classify(2, False)),
    **{
        f"two classes, {transform}": make(
            "SVMClassifier", "LINEAR", **classify(2, False, post_transform=transform)
        )
        for transform in ("LOGISTIC", "SOFTMAX")
    },
    "three classes": make("SVMClassifier", "POLY", **classify(3, False)),
    "two probabilities": make("SVMClassifier", "SIGMOID", **classify(2, True)),
    "four probabilities": make(
        "SVMClassifier", "RBF", **classify(4, True, post_transform="SOFTMAX")
    ),
    "without vectors": make(
        "SVMClassifier", "LINEAR", classlabels_ints=[3, 4], coefficients=draw(2 * FEATURES),
        rho=[0.25],
    ),
    "regressor": make(
        "SVMRegressor", "RBF", n_supports=4, support_vectors=draw(4 * FEATURES),
        coefficients=draw(4), rho=[0.5],
    ),
    "one class": make(
        "SVMRegressor", "POLY", n_supports=4, support_vectors=draw(4 * FEATURES),
        coefficients=draw(4), rho=[0.5], one_class=1,
    ),
    "linear regressor": make("SVMRegressor", "LINEAR", coefficients=draw(FEATURES), rho=[0.5]),
}  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("case", CASES)
def test_results_equal_onnx_runtime(case: str, tmp_path: Path) -> None:
    given = {"x": 2 * draw(5, FEATURES)}
    expected = run_reference(CASES[case], [given])
    assert expected.runtime.startswith("onnxruntime")
    for ours, theirs in zip(
        run_generated(CASES[case], [given], tmp_path)[0], expected.outputs[0], strict=True
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"classlabels_ints": [7]}, "it has 1 labels and 3 counts of support vectors"),
        ({"vectors_per_class": [3, -1, 2]}, r"vectors_per_class are \[3, -1, 2\]; expected 0"),
        ({"support_vectors": draw(14)}, r"input has shape \[5, 3\]; expected rows of 2 elements"),
        ({"support_vectors": draw(8)}, "8 elements of support vectors and 14 coefficients"),
        ({"rho": [0.5]}, "2 rows of coefficients and 1 values of rho for 3 classes"),
        ({"prob_b": [0.5]}, "3 values of prob_a and 1 of prob_b; expected 3, one per pair"),
    ],
)
def test_attributes_of_wrong_lengths_are_rejected(
    attributes: dict[str, Any], sentence: str
) -> None:
    data = make("SVMClassifier", "RBF", **classify(3, True, **attributes))
    with pytest.raises(UserError, match=sentence):
        import_model(data, "m.onnx", {})
