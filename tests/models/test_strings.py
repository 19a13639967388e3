"""Strings have 32 bytes each: labels, categories and comparisons, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.data.arrays import check_array
from firmwright.data.samples import random_samples
from firmwright.errors import UserError
from firmwright.ir.strings import STRING_BYTES, decode_strings, encode_strings
from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import value

STRING, FLOAT, INT64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64
ML = "ai.onnx.ml"
WORDS = np.array([["b", "no such key", "Öl"], ["", "a", "b "]], object)
NUMBERS = np.array([[3, -1, 7], [7, 4, 3]], "int64")
FEATURES = np.array([[0.5, -2.0], [3.0, 1.0], [-1.5, 4.0]], "float32")
KEYS: dict[str, Any] = {"keys_strings": ["a", "b", "Öl"]}


def make(
    node: onnx.NodeProto, x: Any, outputs: list[onnx.ValueInfoProto], opset: int = 17
) -> bytes:
    kind = {"O": STRING, "i": INT64, "f": FLOAT}[x.dtype.kind]
    names = [numpy_helper.from_array(np.array(["a", "bb", "ccc"], object), "names")]
    stored = names if "names" in node.input else []
    made = helper.make_graph([node], "g", [value("x", list(x.shape), kind)], outputs, stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)]
    return bytes(helper.make_model(made, opset_imports=opsets, ir_version=8).SerializeToString())


def encoder(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)


def classifier(kind: str, **attributes: Any) -> onnx.NodeProto:
    labels = ["left", "right", "a rather long label, 31 bytes !"]
    return helper.make_node(
        kind, ["x"], ["label", "y"], domain=ML, classlabels_strings=labels, **attributes
    )


LINEAR = classifier("LinearClassifier", coefficients=[1.0, 0, 0, 1, -1, 0], intercepts=[0.0] * 3)
TREE = classifier(
    "TreeEnsembleClassifier",
    nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3,
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[1.0, 0, 0],
    nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
    class_treeids=[0] * 4, class_nodeids=[1, 1, 2, 2], class_ids=[0, 1, 1, 2],
    class_weights=[0.25, 0.75, 0.0, 1.0],
)  # fmt: skip
LABELS = [value("label", [3], STRING), value("y", [3, 3])]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("node", "x", "outputs"),
    [
        (encoder(**KEYS, values_int64s=[5, 6, 7]), WORDS, [value("y", [2, 3], INT64)]),
        (encoder(**KEYS, values_strings=["x", "y", "z"]), WORDS, [value("y", [2, 3], STRING)]),
        (
            encoder(keys_int64s=[3, 4], values_strings=["three", "four"], default_string="many"),
            NUMBERS,
            [value("y", [2, 3], STRING)],
        ),
        (
            helper.make_node(
                "OneHotEncoder", ["x"], ["y"], domain=ML, cats_strings=["b", "Öl"], zeros=1
            ),
            WORDS,
            [value("y", [2, 3, 2])],
        ),
        (
            helper.make_node("OneHotEncoder", ["x"], ["y"], domain=ML, cats_int64s=[7, 3], zeros=1),
            NUMBERS,
            [value("y", [2, 3, 2])],
        ),
        (
            helper.make_node("ArrayFeatureExtractor", ["names", "x"], ["y"], domain=ML),
            np.array([2, 0], "int64"),
            [value("y", [1, 2], STRING)],
        ),
        (LINEAR, FEATURES, LABELS),
        (TREE, FEATURES, LABELS),
    ],
    ids=["numbers", "strings", "labels", "one-hot", "one-hot numbers", "picked", "linear", "tree"],
)
def test_strings_equal_onnx_runtime(
    tmp_path: Path, node: onnx.NodeProto, x: Any, outputs: list[onnx.ValueInfoProto]
) -> None:
    data = make(node, x, outputs)
    stored = encode_strings(x) if x.dtype == object else x
    expected = run_reference(data, [{"x": stored}])
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, [{"x": stored}], tmp_path)
    for ours, theirs in zip(found[0], expected.outputs[0], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.needs("gcc")
def test_strings_are_moved_and_chosen(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["x", "last"], ["picked"], axis=-1),
        helper.make_node("Concat", ["x", "picked"], ["joined"], axis=1),
        helper.make_node("Equal", ["joined", "b"], ["same"]),
        helper.make_node("Where", ["same", "other", "joined"], ["chosen"]),
        helper.make_node("Squeeze", ["row"], ["other"]),
        helper.make_node("Reshape", ["chosen", "shape"], ["y"]),
    ]
    constants = {
        "last": np.array([2]), "b": np.array(["b"], object), "shape": np.array([2, 2, 2]),
        "row": np.array([["B", "?", "-", "_"]], object),
    }  # fmt: skip
    nodes.insert(3, nodes.pop(4))
    made = helper.make_graph(
        nodes, "g", [value("x", [2, 3], STRING)], [value("y", [2, 2, 2], STRING)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    sample = {"x": encode_strings(WORDS)}
    ((found,),) = run_generated(model.SerializeToString(), [sample], tmp_path)
    wanted = [[["B", "no such key"], ["Öl", "Öl"]], [["", "a"], ["b ", "b "]]]
    assert decode_strings(found).tolist() == wanted


def test_strings_come_from_arrays_and_are_drawn() -> None:
    tensor = Tensor("x", (2, 3, STRING_BYTES), "uint8", model_dtype="string")
    taken = check_array(np.array([WORDS.astype(str)]), tensor, "x.npy")
    assert decode_strings(taken)[0].tolist() == WORDS.tolist()
    drawn = decode_strings(random_samples([tensor], 1, 0)[0]["x"])
    assert drawn.shape == (2, 3)
    assert all(len(word) == 1 and word.isalpha() for word in drawn.reshape(-1))


@pytest.mark.parametrize("word", ["x" * STRING_BYTES, "a\0b"])
def test_strings_that_do_not_fit_are_refused(word: str) -> None:
    with pytest.raises(UserError, match="a string of a network has at most 31, without"):
        encode_strings(np.array([word], object))
    data = make(encoder(keys_strings=[word], values_int64s=[1]), WORDS, [value("y", [2, 3], INT64)])
    with pytest.raises(UserError, match=r"m\.onnx: the string 'x|m\.onnx: the string 'a"):
        import_model(data, "m.onnx", {})


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        (
            helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="UPPER"),
            "cannot drop strings or change their case; export the model without",
        ),
        (helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="a.*"), "has string tensors"),
    ],
)
def test_what_computes_with_strings_is_refused(node: onnx.NodeProto, sentence: str) -> None:
    data = make(node, WORDS[0], [value("y", [3], STRING)], opset=21)
    with pytest.raises(UserError, match=rf"operator {node.op_type} .*{sentence}"):
        import_model(data, "m.onnx", {})


@pytest.mark.needs("gcc")
def test_the_build_computes_strings_of_constants(tmp_path: Path) -> None:
    """StringConcat and StringNormalizer of constants, whose result the firmware compares."""
    nodes = [
        helper.make_node("StringNormalizer", ["names"], ["upper"], case_change_action="UPPER"),
        helper.make_node("StringConcat", ["upper", "end"], ["key"]),
        helper.make_node("Equal", ["x", "key"], ["y"]),
    ]
    stored = [
        numpy_helper.from_array(np.array(["a", "bb", "ccc"], object), "names"),
        numpy_helper.from_array(np.array("!", object), "end"),
    ]
    ports = [value("x", [3], STRING)], [value("y", [3], TensorProto.BOOL)]
    made = helper.make_graph(nodes, "g", *ports, stored)
    opsets = [helper.make_opsetid("", 20)]
    data = helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()
    samples = [{"x": encode_strings(np.array(["A!", "bb!", "CCC!"], object))}]
    found = run_generated(data, samples, tmp_path)
    assert found[0][0].tolist() == [True, False, True]
