"""Rewrites operators of classical machine learning (ai.onnx.ml) as operators of ONNX.

The module covers operators without ONNX's map type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import numpy_helper

from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite


def floats(body: NodeBuilder, name: str, default: Any) -> str:
    return body.constant(body.attribute(name, default))


def rewrite_scaler(body: NodeBuilder) -> Nodes:
    x = body.cast(body.input(0), "float32")
    moved = body.add("Sub", x, floats(body, "offset", [0.0]))
    return body.finish(body.add("Mul", moved, floats(body, "scale", [1.0])))


def rewrite_binarizer(body: NodeBuilder) -> Nodes:
    dtype = body.dtype(0)
    limit = body.constant(body.attribute("threshold", 0.0), dtype)
    above = body.add("Greater", body.input(0), limit)
    return body.finish(body.cast(above, dtype))


def rewrite_feature_extractor(body: NodeBuilder) -> Nodes | None:
    """Rewrite an ArrayFeatureExtractor, which selects elements along the last axis."""
    shape = body.shape(0)
    if shape is None:
        return None
    x = body.input(0)
    if len(shape) == 1:
        x = body.reshape(x, [1, -1])
    indices = body.reshape(body.input(1), [-1])
    return body.finish(body.add("Gather", x, indices, axis=-1))


def rewrite_normalizer(body: NodeBuilder) -> Nodes:
    """Rewrite a Normalizer. A row whose norm is zero remains unchanged."""
    x = body.cast(body.input(0), "float32")
    kind = body.attribute("norm", "MAX")
    if kind == "MAX":
        norm = body.reduce("ReduceMax", x, -1)
    elif kind == "L1":
        norm = body.reduce("ReduceSum", body.add("Abs", x), -1)
    else:
        norm = body.add("Sqrt", body.reduce("ReduceSum", body.add("Mul", x, x), -1))
    none = body.add("Equal", norm, body.constant(0))
    return body.finish(body.add("Where", none, x, body.add("Div", x, norm)))


def rewrite_imputer(body: NodeBuilder) -> Nodes:
    kind, dtype = ("float", "float32") if body.dtype(0).kind == "f" else ("int64",) * 2
    replaced = body.attribute(f"replaced_value_{kind}", 0)
    if np.isnan(replaced):
        missing = body.add("IsNaN", body.input(0))
    else:
        missing = body.add("Equal", body.input(0), body.constant(replaced, dtype))
    values = body.constant(body.attribute(f"imputed_value_{kind}s", []), dtype)
    return body.finish(body.add("Where", missing, values, body.input(0)))


def rewrite_one_hot(body: NodeBuilder) -> Nodes | None:
    """Rewrite a OneHotEncoder. Unknown categories become zeros, even if ONNX requires an error."""
    shape = body.shape(0)
    if shape is None:
        return None
    x = body.input(0)
    categories = np.array(body.attribute("cats_int64s", []), "int64")
    if body.walk.dtype(x).kind == "O":
        categories = decode_labels(body, "cats_strings")
    else:
        x = body.cast(x, "int64")
    equal = body.add(
        "Equal", body.unsqueeze(x, len(shape)), body.constant(categories, categories.dtype)
    )
    return body.finish(body.cast(equal, "float32"))


def rewrite_feature_vectorizer(body: NodeBuilder) -> Nodes:
    """Rewrite a FeatureVectorizer as a concatenation of the columns of all inputs, in float32."""
    columns = []
    for name, width in zip(body.node.input, body.attribute("inputdimensions", []), strict=False):
        shape = body.walk.shape(name) or ()
        if shape[-1:] != (width,) or len(shape) > 2:
            problem = f"its input '{name}' has shape {list(shape)}; expected {width} columns"
            body.refuse_inconsistent(problem)
        rows = body.reshape(name, [-1, width])
        columns.append(body.cast(rows, "float32"))
    return body.finish(body.add("Concat", *columns, axis=1))


def rewrite_ngrams(body: NodeBuilder) -> Nodes | None:
    """Rewrite a TfIdfVectorizer of numbers, which counts the sequences of the pool.

    The elements of an occurrence have a constant distance, from 1 to max_skip_count + 1.
    """
    shape = body.shape(0)
    if shape is None or body.attribute("pool_int64s", None) is None:
        return None
    length, results = shape[-1], body.attribute("ngram_indexes", [])
    x = body.reshape(body.input(0), [-1, length])
    x = body.cast(x, "int64")
    rows = shape[0] if len(shape) > 1 else 1
    counts, columns = [body.constant(np.zeros((rows, 1)))], [0] * (max(results) + 1)
    width = 1
    for grams, first in list_grams(body):
        size = grams.shape[1]
        skips = body.attribute("max_skip_count", 0) if size > 1 else 0
        positions = np.array([begin + step * np.arange(size) for step in range(1, skips + 2)
                           for begin in range(length - step * (size - 1))], "int64")  # fmt: skip
        if not positions.size or not grams.size:
            continue
        same = ""
        for i in range(size):
            element = body.unsqueeze(
                body.add("Gather", x, body.constant(positions[:, i], "int64"), axis=1), -1
            )
            equal = body.add("Equal", element, body.constant(grams[:, i], "int64"))
            same = body.add("And", same, equal) if same else equal
        count = body.reduce("ReduceSum", body.cast(same, "float32"), 1)
        counts.append(body.reshape(count, [rows, len(grams)]))
        for i in range(len(grams)):
            columns[results[first + i]] = width + i
        width += len(grams)
    features = body.add("Concat", *counts, axis=1)
    features = body.add("Gather", features, body.constant(columns, "int64"), axis=1)
    mode = body.attribute("mode", "TF")
    if mode == "IDF":
        features = body.add("Min", features, body.constant(1))
    weights = body.attribute("weights", [])
    if mode != "TF" and weights:
        factors = np.zeros(len(columns))
        factors[results] = weights
        features = body.add("Mul", features, body.constant(factors))
    return body.finish(body.reshape(features, [*shape[:-1], len(columns)]))


def list_grams(body: NodeBuilder) -> Iterator[tuple[Any, int]]:
    """Yield the pool's sequences of each length as rows, and the number of the first sequence."""
    pool = np.array(body.attribute("pool_int64s", []))
    begins = [*body.attribute("ngram_counts", []), len(pool)]
    least, most = (body.attribute(f"{n}_gram_length", 1) for n in ("min", "max"))
    number = 0
    for size in range(1, len(begins)):
        grams = pool[begins[size - 1] : begins[size]].reshape(-1, size)
        if least <= size <= most:
            yield grams, number
        number += len(grams)


def add_scores(body: NodeBuilder, x: str, rows: int) -> str:
    coefficients = np.array(body.attribute("coefficients", []), "float32")
    scores = body.add("MatMul", x, body.constant(coefficients.reshape(rows, -1).T))
    return body.add("Add", scores, floats(body, "intercepts", [0.0] * rows))


def rewrite_regressor(body: NodeBuilder) -> Nodes:
    targets = body.attribute("targets", 1)
    transform = body.attribute("post_transform", "NONE")
    if targets == 1 and transform in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        body.refuse(
            f"it has one result and a post_transform, {transform}, which ONNX Runtime ignores; "
            "export the model without it"
        )
    x = body.cast(body.input(0), "float32")
    return body.finish(add_transform(body, add_scores(body, x, targets), transform))


def rewrite_classifier(body: NodeBuilder) -> Nodes:
    """Rewrite a LinearClassifier, whose results are the label and all scores."""
    labels = get_labels(body)
    if len(body.attribute("intercepts", labels)) != len(labels):
        body.refuse_inconsistent(
            f"its intercepts do not fit its {len(labels)} labels; expected one per label"
        )
    x = body.cast(body.input(0), "float32")
    scores = add_scores(body, x, len(labels))
    best = body.add("ArgMax", scores, axis=-1, keepdims=0)
    label = body.add("Gather", body.constant(labels, labels.dtype), best, axis=0)
    transform = body.attribute("post_transform", "NONE")
    return body.finish(label, add_transform(body, scores, transform))


def get_labels(body: NodeBuilder) -> Any:
    labels = body.attribute("classlabels_ints", [])
    labels = body.attribute("classlabels_int64s", labels)
    if labels:
        return np.array(labels, "int64")
    return decode_labels(body, "classlabels_strings")


def decode_labels(body: NodeBuilder, name: str) -> Any:
    return np.array([label.decode() for label in body.attribute(name, [])], object)


TRANSFORMS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}

ZERO = 1e-7
"""The largest absolute score that SOFTMAX_ZERO treats as 0."""


def add_transform(body: NodeBuilder, scores: str, transform: str) -> str:
    if transform in TRANSFORMS:
        return body.add(TRANSFORMS[transform], scores)
    if transform == "SOFTMAX_ZERO":
        return add_softmax_without_zeros(body, scores)
    if transform == "PROBIT":
        return add_probit(body, scores)
    if transform != "NONE":
        body.refuse_inconsistent(
            f"its post_transform is {transform}; expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or "
            "PROBIT"
        )
    return scores


def add_softmax_without_zeros(body: NodeBuilder, scores: str) -> str:
    """Append a softmax of the scores that are not 0, as ONNX Runtime computes it.

    Other scores, almost 0, are only scaled.
    """
    largest = body.reduce("ReduceMax", scores, -1)
    counts = body.add("Greater", body.add("Abs", scores), body.constant(ZERO))
    powers = body.add("Exp", body.add("Sub", scores, largest))
    scaled = body.add("Mul", scores, body.add("Exp", body.add("Neg", largest)))
    counted = body.add("Where", counts, powers, body.constant(0))
    total = body.reduce("ReduceSum", counted, -1)
    return body.add("Div", body.add("Where", counts, powers, scaled), total)


def add_probit(body: NodeBuilder, scores: str) -> str:
    """Append √2 · erf⁻¹(2 · score - 1), by the approximation of ONNX Runtime (ml_common.h)."""
    one, half, factor = (body.constant(n) for n in (1, 0.5, 0.147))
    x = body.add("Sub", body.add("Add", scores, scores), one)
    product = body.add("Mul", body.add("Sub", one, x), body.add("Add", one, x))
    logarithm = body.add("Log", product)
    first = body.constant(2 / (np.float32(3.14159) * np.float32(0.147)))
    first = body.add("Add", first, body.add("Mul", half, logarithm))
    second = body.add("Mul", body.add("Div", one, factor), logarithm)
    root = body.add("Sqrt", body.add("Sub", body.add("Mul", first, first), second))
    size = body.add("Sqrt", body.add("Sub", root, first))
    signs = body.constant(np.sqrt(2)), body.constant(-np.sqrt(2))
    negative = body.add("Less", x, body.constant(0))
    return body.add("Mul", size, body.add("Where", negative, *reversed(signs)))


NO_LABEL = {"i": -1, "f": -0.0, "O": "_Unused"}
"""Maps kinds of values to a LabelEncoder's default result for unknown keys."""

NAN_KEYS_VERSION = 4
"""The first version of ai.onnx.ml in which NaN can be a key."""


def rewrite_label_encoder(body: NodeBuilder) -> Nodes:
    """Rewrite a LabelEncoder, which returns the value of the first equal key."""
    keys, values, default = (get_mapping(body, name) for name in ("keys", "values", "default"))
    if default is None:
        default = np.array(NO_LABEL[values.dtype.kind], values.dtype)
    x = body.unsqueeze(body.input(0), len(body.shape(0) or ()))
    equal = body.add("Equal", x, body.constant(keys, body.dtype(0)))
    if keys.dtype.kind == "f" and body.walk.opsets["ai.onnx.ml"] >= NAN_KEYS_VERSION:
        both = body.add("And", body.add("IsNaN", x), body.constant(np.isnan(keys), "bool"))
        equal = body.add("Or", equal, both)
    hits = body.cast(equal, "int32")
    first = body.add("ArgMax", hits, axis=-1, keepdims=0)
    labels = body.add("Gather", body.constant(values, values.dtype), first, axis=0)
    known = body.cast(body.reduce("ReduceMax", hits, -1), "bool")
    known = body.reshape(known, body.shape(0) or ())
    return body.finish(body.add("Where", known, labels, body.constant(default, values.dtype)))


def get_mapping(body: NodeBuilder, name: str) -> Any:
    """Return a LabelEncoder's keys, values or default from one of several attributes.

    Return None if there is no default. Raises UserError if the keys or values are missing.
    """
    plural = "" if name == "default" else "s"
    for kind, dtype in (("int64", "int64"), ("float", "float32"), ("string", "object")):
        values = body.attribute(f"{name}_{kind}{plural}", None)
        if values is not None:
            return np.array(values, dtype)
    tensor = body.attribute(f"{name}_tensor", None)
    if tensor is None and name != "default":
        body.refuse(f"it has no {name}; export the model for ai.onnx.ml of version 2 or later")
    return None if tensor is None else numpy_helper.to_array(tensor).reshape(-1 if plural else ())


def refuse_maps(body: NodeBuilder) -> Nodes:
    body.refuse("it returns maps; export the model without maps (scikit-learn: zipmap=False)")


CLASSICAL: dict[str, Rewrite] = {
    "ai.onnx.ml.ArrayFeatureExtractor": rewrite_feature_extractor,
    "ai.onnx.ml.Binarizer": rewrite_binarizer,
    "ai.onnx.ml.FeatureVectorizer": rewrite_feature_vectorizer,
    "ai.onnx.ml.Imputer": rewrite_imputer,
    "ai.onnx.ml.LabelEncoder": rewrite_label_encoder,
    "ai.onnx.ml.LinearClassifier": rewrite_classifier,
    "ai.onnx.ml.LinearRegressor": rewrite_regressor,
    "ai.onnx.ml.Normalizer": rewrite_normalizer,
    "ai.onnx.ml.OneHotEncoder": rewrite_one_hot,
    "ai.onnx.ml.Scaler": rewrite_scaler,
    "ai.onnx.ml.ZipMap": refuse_maps,
    "TfIdfVectorizer": rewrite_ngrams,
}
