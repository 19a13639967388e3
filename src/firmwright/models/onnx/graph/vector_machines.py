"""Rewrites support vector machines of ai.onnx.ml as operators of ONNX.

Source: onnxruntime/core/providers/cpu/ml/svmclassifier.cc.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from firmwright.models.onnx.graph.classical import add_transform, get_labels
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

SMALLEST = 1e-7
"""The minimum distance of a pair's probability from 0 and from 1."""

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def read_floats(body: NodeBuilder, name: str) -> Any:
    return np.array(body.attribute(name, []), "float32")


def add_kernels(body: NodeBuilder, x: str, vectors: Any, kind: str) -> str:
    """Append the kernel of each row of ``x`` and each vector. The shape is (rows, vectors)."""
    gamma, offset, degree = [*read_floats(body, "kernel_params"), *np.zeros(3, "float32")][:3]
    if kind == "RBF":
        apart = body.add("Sub", body.unsqueeze(x, 1), body.constant(vectors))
        squared = body.squeeze(body.reduce("ReduceSum", body.add("Mul", apart, apart), 2), 2)
        return body.add("Exp", body.add("Mul", squared, body.constant(-gamma)))
    products = body.add("MatMul", x, body.constant(vectors.T))
    if kind == "LINEAR":
        return products
    scaled = body.add("Mul", products, body.constant(gamma))
    moved = body.add("Add", scaled, body.constant(offset))
    if kind == "SIGMOID":
        return body.add("Tanh", moved)
    return body.add("Pow", moved, body.constant(degree))


def read_vectors(body: NodeBuilder, count: int) -> Any:
    """Return the ``count`` support vectors as rows.

    Raises UserError if the numbers of elements are not multiples of ``count``.
    """
    vectors, factors = read_floats(body, "support_vectors"), read_floats(body, "coefficients")
    if len(vectors) % count or len(factors) % count or not min(len(vectors), len(factors)):
        body.refuse_inconsistent(
            f"it has {len(vectors)} elements of support vectors and {len(factors)} coefficients; "
            f"expected multiples of its number of support vectors, {count}"
        )
    return vectors.reshape(count, -1)


def read_kernel(body: NodeBuilder) -> str:
    kind = str(body.attribute("kernel_type", "LINEAR"))
    if kind not in KERNELS:
        body.refuse_inconsistent(f"its kernel_type is {kind}; expected one of {', '.join(KERNELS)}")
    return kind


def check_input(body: NodeBuilder, width: int) -> None:
    """Raise UserError if rho is missing, or if a row does not have ``width`` elements."""
    shape = body.shape(0)
    if shape is not None and (len(shape) not in (1, 2) or shape[-1] != width):
        body.refuse_inconsistent(
            f"its input has shape {list(shape)}; expected rows of {width} elements"
        )
    if not len(read_floats(body, "rho")):
        body.refuse_inconsistent("its attribute rho, the offset of the decision, is missing")


def rewrite_regressor(body: NodeBuilder) -> Nodes:
    """Rewrite an SVMRegressor. If ``one_class`` is set, the result is 1 or -1."""
    transform = body.attribute("post_transform", "NONE")
    if transform != "NONE":
        body.refuse(f"its post_transform is {transform}; ONNX Runtime ignores it: state NONE")
    x = body.cast(body.input(0), "float32")
    factors, rho = read_floats(body, "coefficients"), read_floats(body, "rho")[:1]
    count = body.attribute("n_supports", 0)
    if count > 0:
        vectors, factors = read_vectors(body, count), factors[:count]
        check_input(body, vectors.shape[1])
        rows = body.reshape(x, [-1, vectors.shape[1]])
        x = add_kernels(body, rows, vectors, read_kernel(body))
    else:
        check_input(body, len(factors))
        x = body.reshape(x, [-1, len(factors)])
    product = body.add("MatMul", x, body.constant(factors.reshape(-1, 1)))
    result = body.add("Add", product, body.constant(rho))
    if body.attribute("one_class", 0):
        positive = body.add("Greater", result, body.constant(0))
        signs = (body.constant(sign) for sign in (1, -1))
        result = body.add("Where", positive, *signs)
    return body.finish(result)


def rewrite_classifier(body: NodeBuilder) -> Nodes:
    """Rewrite an SVMClassifier.

    The results are the label, and the scores of pairs of classes or the probabilities of classes.
    """
    labels, sizes = get_labels(body), body.attribute("vectors_per_class", [])
    if len(labels) < 2 or (sizes and len(sizes) != len(labels)):
        body.refuse_inconsistent(
            f"it has {len(labels)} labels and {len(sizes)} counts of support vectors; "
            "expected two labels or more, and one number per label"
        )
    if min(sizes, default=0) < 0:
        body.refuse_inconsistent(f"its vectors_per_class are {list(sizes)}; expected 0 or more")
    x = body.cast(body.input(0), "float32")
    if not sum(sizes):
        count = len(read_floats(body, "coefficients"))
        if not count or count % len(labels):
            body.refuse_inconsistent(
                f"it has {count} coefficients; expected a multiple of {len(labels)}"
            )
        check_input(body, count // len(labels))
        best, scores = add_linear_scores(body, x, len(labels))
    else:
        check_input(body, read_vectors(body, sum(sizes)).shape[1])
        best, scores = add_votes(body, x, list(sizes))
    label = body.add("Gather", body.constant(labels, labels.dtype), best, axis=0)
    return body.finish(label, scores)


def add_linear_scores(body: NodeBuilder, x: str, count: int) -> tuple[str, str]:
    """Append the best class and the scores of a model without support vectors.

    The second of two classes is also the best class if the larger score exceeds a limit.
    """
    factors, rho = read_floats(body, "coefficients"), read_floats(body, "rho")[:1]
    rows = body.reshape(x, [-1, len(factors) // count])
    products = body.add("MatMul", rows, body.constant(factors.reshape(count, -1).T))
    scores = body.add("Add", products, body.constant(rho))
    best = body.add("ArgMax", scores, axis=-1, keepdims=0)
    if count == 2 and not len(read_floats(body, "prob_a")):
        largest = body.squeeze(body.reduce("ReduceMax", scores, 1), 1)
        if (factors >= 0).all():
            below = body.add("Less", largest, body.constant(0.5))
        else:
            below = body.add("Not", body.add("Greater", largest, body.constant(0)))
        best = body.add("Where", below, best, body.constant(1, "int64"))
    return best, add_transform(body, scores, body.attribute("post_transform", "NONE"))


def add_votes(body: NodeBuilder, x: str, sizes: list[int]) -> tuple[str, str]:
    """Append the class that wins the most pairs, and the scores.

    ``sizes`` contains the number of support vectors per class.
    """
    count = len(sizes)
    vectors = read_vectors(body, sum(sizes))
    rows = body.reshape(x, [-1, vectors.shape[1]])
    kernels = add_kernels(body, rows, vectors, read_kernel(body))
    pairs = list(combinations(range(count), 2))
    sums = add_pair_sums(body, kernels, sizes, pairs)
    won = body.add("Cast", body.add("Greater", sums, body.constant(0)), to=1)
    votes = np.zeros((2, len(pairs), count))
    for number, pair in enumerate(pairs):
        votes[[0, 1], number, pair] = 1
    gained = body.add("MatMul", won, body.constant(votes[0] - votes[1]))
    counts = body.add("Add", gained, body.constant(votes[1].sum(axis=0)))
    best = body.add("ArgMax", counts, axis=-1, keepdims=0)
    transform = body.attribute("post_transform", "NONE")
    if len(read_floats(body, "prob_a")):
        return best, add_transform(body, add_probabilities(body, sums, pairs), transform)
    if count > 2:
        return best, add_transform(body, sums, transform)
    return best, add_second_score(body, sums, transform)


def add_second_score(body: NodeBuilder, score: str, transform: str) -> str:
    """Append the scores of two classes.

    For SOFTMAX, ONNX Runtime only scales the scores to a sum of 1.
    """
    total = int(transform == "SOFTMAX")
    other = body.add("Sub", body.constant(total), score)
    both = body.add("Concat", other, score, axis=1)
    return both if transform == "SOFTMAX" else add_transform(body, both, transform)


def add_pair_sums(
    body: NodeBuilder, kernels: str, sizes: list[int], pairs: list[tuple[int, int]]
) -> str:
    """Append the weighted sum of each pair of classes. The shape is (rows, pairs).

    A class has one row of coefficients for each other class.
    """
    count = len(sizes)
    factors, rho = (read_floats(body, name) for name in ("coefficients", "rho"))
    factors = factors.reshape(-1, sum(sizes))
    if len(factors) < count - 1 or len(rho) < len(pairs):
        body.refuse_inconsistent(
            f"it has {len(factors)} rows of coefficients and {len(rho)} values of rho for "
            f"{count} classes; expected {count - 1} and {len(pairs)}"
        )
    ends = np.cumsum(sizes).tolist()
    parts = [
        body.add(
            "MatMul",
            body.cut(kernels, 1, end - size, end),
            body.constant(factors[: count - 1, end - size : end].T),
        )
        for size, end in zip(sizes, ends, strict=True)
        if size
    ]
    # Classes without support vectors have no columns.
    first = np.cumsum([0, *(count - 1 if size else 0 for size in sizes)])
    total = ""
    for one, other in ((0, 1), (1, 0)):
        columns = [int(first[p[one]]) + p[other] - int(p[other] > p[one]) for p in pairs]
        part = body.add(
            "Gather", body.add("Concat", *parts, axis=1), body.constant(columns, "int64"), axis=1
        )
        total = body.add("Add", total, part) if total else part
    return body.add("Add", total, body.constant(rho[: len(pairs)]))


def add_probabilities(body: NodeBuilder, sums: str, pairs: list[tuple[int, int]]) -> str:
    slopes, offsets = (read_floats(body, name) for name in ("prob_a", "prob_b"))
    if min(len(slopes), len(offsets)) < len(pairs):
        body.refuse_inconsistent(
            f"it has {len(slopes)} values of prob_a and {len(offsets)} of prob_b; expected "
            f"{len(pairs)}, one per pair of classes"
        )
    scaled = body.add("Mul", sums, body.constant(slopes[: len(pairs)]))
    moved = body.add("Add", scaled, body.constant(offsets[: len(pairs)]))
    one = body.constant(1)
    first = body.add("Sub", one, body.add("Sigmoid", moved))
    first = body.add("Max", first, body.constant(SMALLEST))
    first = body.add("Min", first, body.constant(1 - SMALLEST))
    both = body.add("Concat", first, body.add("Sub", one, first), axis=1)
    count = pairs[-1][1] + 1
    positions = np.zeros((count, count), "int64")
    for number, (i, j) in enumerate(pairs):
        positions[i, j], positions[j, i] = number, len(pairs) + number
    matrix = body.add("Gather", both, body.constant(positions, "int64"), axis=1)
    return body.add("PairwiseProbabilities", matrix)


VECTOR_MACHINES: dict[str, Rewrite] = {
    "ai.onnx.ml.SVMClassifier": rewrite_classifier,
    "ai.onnx.ml.SVMRegressor": rewrite_regressor,
}
