"""Linear models, scalers and similar operators of ai.onnx.ml, and block-quantized weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import lowered, run_generated

pytestmark = pytest.mark.needs("gcc")

X = np.array([[0.5, -2.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-1.5, 4.0, np.nan, 2.5]], "float32")


def make(kind: str, opset: int = 18, labels: str = "y", **attributes: Any) -> bytes:
    """Return a model of one operator of ai.onnx.ml, on three rows of four numbers."""
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, "n"])]
    if labels != "y":
        outputs.insert(0, helper.make_tensor_value_info(labels, TensorProto.INT64, [3]))
    graph = helper.make_graph(
        [
            helper.make_node(
                kind, ["x"], [o.name for o in outputs], domain="ai.onnx.ml", **attributes
            )
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        outputs,
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", opset)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


LINEAR: dict[str, Any] = {"coefficients": np.arange(12) * 0.25 - 1, "intercepts": [0.5, -0.5, 1.0]}


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("Scaler", {"offset": [0.5, 1.0, -1.0, 0.0], "scale": [2.0, 0.5, 1.0, 3.0]}),
        ("OneHotEncoder", {"cats_int64s": [0, -2, 3], "zeros": 1}),
        ("FeatureVectorizer", {"inputdimensions": [4]}),
        ("Normalizer", {"norm": "MAX"}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": np.nan}),
        ("LinearRegressor", {"targets": 3, **LINEAR}),
        ("LinearRegressor", {"targets": 3, "post_transform": "LOGISTIC", **LINEAR}),
        (
            "LinearClassifier",
            {"classlabels_ints": [7, 8, 9], "post_transform": "SOFTMAX", **LINEAR},
        ),
        *(
            (
                "LinearClassifier",
                {"classlabels_ints": [7, 8, 9], "post_transform": transform, **LINEAR},
            )
            for transform in ("LOGISTIC", "PROBIT", "SOFTMAX_ZERO")
        ),
    ],
)
@pytest.mark.parametrize("opset", [11, 18])
def test_an_operator_equals_onnx_runtime(
    tmp_path: Path, kind: str, attributes: dict[str, Any], opset: int
) -> None:
    data = make(kind, opset, "label" if kind == "LinearClassifier" else "y", **attributes)
    x = X if kind == "Imputer" else np.nan_to_num(X, nan=-0.25)
    expected = run_reference(data, [{"x": x}])
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, [{"x": x}], tmp_path)
    for ours, theirs in zip(found[0], expected.outputs[0], strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


@pytest.mark.parametrize(
    ("kind", "attributes", "sentence"),
    [
        (
            "LinearClassifier",
            {"classlabels_ints": [1, 2]},
            "its intercepts do not fit its 2 labels",
        ),
        ("ZipMap", {"classlabels_int64s": [1, 2]}, "it returns maps; .*zipmap=False"),
        ("LinearRegressor", {"post_transform": "LOG"}, "its post_transform is LOG; expected"),
        (
            "LinearRegressor",
            {"post_transform": "SOFTMAX", "coefficients": [1.0] * 4, "intercepts": [0.5]},
            "a post_transform, SOFTMAX, which ONNX Runtime ignores",
        ),
    ],
)
def test_what_is_not_computed_is_refused(
    kind: str, attributes: dict[str, Any], sentence: str
) -> None:
    labels = "label" if kind == "LinearClassifier" else "y"
    with pytest.raises(UserError, match=sentence):
        import_model(make(kind, labels=labels, **(LINEAR | attributes)), "m.onnx", {})


def test_weights_of_4_bits_in_blocks_stay_packed(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    stored = random.integers(-8, 8, (64, 40))
    constants = [
        helper.make_tensor("w", TensorProto.INT4, stored.shape, stored.reshape(-1)),
        numpy_helper.from_array(random.uniform(0.01, 0.1, (4, 40)).astype("float32"), "s"),
        helper.make_tensor("z", TensorProto.INT4, [4, 40], random.integers(-3, 3, 160)),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 40])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data = model.SerializeToString()
    x = random.normal(0, 1, (2, 64)).astype("float32")
    (found,), (expected,) = (
        run_generated(data, [{"x": x}], tmp_path),
        run_reference(data, [{"x": x}]).outputs,
    )
    np.testing.assert_allclose(found[0], expected[0], 1e-5, 1e-5)
    assert sum(array.nbytes for array in lowered(data).weights.values()) == 64 * 40 / 2 + 160 * 5


@pytest.mark.parametrize("kind", ["INT4", "INT8"])
def test_blocks_are_never_ignored(kind: str) -> None:
    node = helper.make_node(
        "QuantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2,
        output_dtype=TensorProto.DataType.Value(kind),
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.DataType.Value(kind), [3, 4])],
        [numpy_helper.from_array(np.ones((3, 2), "float32"), "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    module, _ = import_model(model.SerializeToString(), "m.onnx", {})
    assert "quantize" not in module.script()


@pytest.mark.parametrize("reader", ["MatMul", "Add"])
@pytest.mark.parametrize(
    ("block", "scales", "problem"),
    [
        (-2, (2, 4), "its block_size is -2; expected a positive number"),
        (2, (1, 4), r"its scales have shape \[1, 4\]; expected \[2, 4\]"),
        (2, (4,), r"its scales have shape \[4\]; expected \[2, 4\]"),
    ],
)
def test_blocks_that_do_not_fit(
    reader: str, block: int, scales: tuple[int, ...], problem: str
) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], "dq", axis=0, block_size=block),
        helper.make_node(reader, ["x", "f"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    arrays = {"w": np.ones((4, 4), "int8"), "s": np.ones(scales, "float32")}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UserError, match=rf"DequantizeLinear \(node 'dq'\): .*{problem}"):
        import_model(model.SerializeToString(), "m.onnx", {})
