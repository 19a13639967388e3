"""Operators of classical machine learning, ai.onnx.ml, as operators of ONNX.

These are the ones that compute with numbers alone: no strings, no maps, no trees.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.graph.body import NodeBuilder, get_attribute
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer


def refuse(node: onnx.NodeProto, problem: str) -> NoReturn:
    raise UserError(f"operator {node.op_type} (node '{node.name}'): {problem}")


def begin(node: onnx.NodeProto, walk: Specializer) -> tuple[NodeBuilder, str]:
    """Return a builder, and the input as float32, in which these operators compute."""
    body = NodeBuilder(node, walk)
    return body, body.add("Cast", node.input[0], to=TensorProto.FLOAT)


def floats(body: NodeBuilder, name: str, default: Any) -> str:
    return body.constant(get_attribute(body.node, name, default), "float32")


def rewrite_scaler(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    body, x = begin(node, walk)
    moved = body.add("Sub", x, floats(body, "offset", [0.0]))
    return body.finish(body.add("Mul", moved, floats(body, "scale", [1.0])))


def rewrite_binarizer(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    body = NodeBuilder(node, walk)
    dtype = walk.dtype(node.input[0])
    limit = body.constant(get_attribute(node, "threshold", 0.0), dtype)
    above = body.add("Greater", node.input[0], limit)
    return body.finish(body.add("Cast", above, to=helper.np_dtype_to_tensor_dtype(dtype)))


def rewrite_feature_extractor(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite an ArrayFeatureExtractor, which picks elements along the last axis."""
    shape, places = walk.shape(node.input[0]), walk.constants.get(node.input[1])
    if shape is None or places is None:
        return None
    body = NodeBuilder(node, walk)
    x = node.input[0]
    if len(shape) == 1:
        x = body.add("Reshape", x, body.constant([1, -1], "int64"))
    indices = body.constant(places.reshape(-1), "int64")
    return body.finish(body.add("Gather", x, indices, axis=-1))


def rewrite_normalizer(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a Normalizer; a row whose norm is zero stays as it is."""
    body, x = begin(node, walk)
    kind = get_attribute(node, "norm", "MAX")
    if kind == "MAX":
        norm = body.reduce("ReduceMax", x, -1)
    elif kind == "L1":
        norm = body.reduce("ReduceSum", body.add("Abs", x), -1)
    else:
        norm = body.add("Sqrt", body.reduce("ReduceSum", body.add("Mul", x, x), -1))
    none = body.add("Equal", norm, body.constant(0, "float32"))
    return body.finish(body.add("Where", none, x, body.add("Div", x, norm)))


def rewrite_imputer(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    if get_attribute(node, "imputed_value_int64s", None) is not None:
        return None
    body = NodeBuilder(node, walk)
    replaced = get_attribute(node, "replaced_value_float", 0.0)
    if np.isnan(replaced):
        missing = body.add("IsNaN", node.input[0])
    else:
        missing = body.add("Equal", node.input[0], body.constant(replaced, "float32"))
    values = floats(body, "imputed_value_floats", [])
    return body.finish(body.add("Where", missing, values, node.input[0]))


def add_scores(body: NodeBuilder, x: str, rows: int) -> str:
    """Append the products of a linear model of so many results."""
    coefficients = np.array(get_attribute(body.node, "coefficients", []), "float32")
    scores = body.add("MatMul", x, body.constant(coefficients.reshape(rows, -1).T, "float32"))
    return body.add("Add", scores, floats(body, "intercepts", [0.0] * rows))


def rewrite_regressor(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    if get_attribute(node, "post_transform", "NONE") != "NONE":
        refuse(node, "it transforms its results; export the model without post_transform")
    body, x = begin(node, walk)
    return body.finish(add_scores(body, x, get_attribute(node, "targets", 1)))


TRANSFORMS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
"""What becomes of a classifier's scores, by ``post_transform``."""


def rewrite_classifier(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    """Rewrite a LinearClassifier of labels that are numbers: the label, and all scores."""
    labels = get_attribute(node, "classlabels_ints", [])
    if not labels:
        refuse(node, "its labels are strings; export the model with numbers")
    if len(get_attribute(node, "intercepts", labels)) != len(labels):
        refuse(node, f"it has no row of coefficients for each of its {len(labels)} labels")
    body, x = begin(node, walk)
    scores = add_scores(body, x, len(labels))
    best = body.add("ArgMax", scores, axis=-1, keepdims=0)
    label = body.add("Gather", body.constant(labels, "int64"), best, axis=0)
    transform = get_attribute(node, "post_transform", "NONE")
    if transform in TRANSFORMS:
        scores = body.add(TRANSFORMS[transform], scores)
    elif transform != "NONE":
        refuse(node, f"its post_transform is {transform}; known are NONE, LOGISTIC and SOFTMAX")
    return body.finish(label, scores)


CLASSICAL: dict[str, Rewrite] = {
    "ai.onnx.ml.ArrayFeatureExtractor": rewrite_feature_extractor,
    "ai.onnx.ml.Binarizer": rewrite_binarizer,
    "ai.onnx.ml.Imputer": rewrite_imputer,
    "ai.onnx.ml.LinearClassifier": rewrite_classifier,
    "ai.onnx.ml.LinearRegressor": rewrite_regressor,
    "ai.onnx.ml.Normalizer": rewrite_normalizer,
    "ai.onnx.ml.Scaler": rewrite_scaler,
}
