"""Rewrites ensembles of decision trees (ai.onnx.ml) as operators of ONNX.

All trees are evaluated in parallel, one level per step. Tables of the nodes contain the feature and
the value to compare, and the next node. The successor of a leaf is the leaf itself. For two
classes, the results follow ONNX Runtime, which defines more cases than ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from firmwright.models.onnx.graph.classical import add_transform, get_labels
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""The comparisons in the order of their numbers since version 5.

In earlier versions, the names of comparisons begin with ``BRANCH_``.
"""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))

COMPARISONS: dict[int, Callable[[NodeBuilder, str, str], str]] = {
    LEQ: lambda body, x, split: body.add("LessOrEqual", x, split),
    LT: lambda body, x, split: body.add("Less", x, split),
    GTE: lambda body, x, split: body.add("GreaterOrEqual", x, split),
    GT: lambda body, x, split: body.add("Greater", x, split),
    EQ: lambda body, x, split: body.add("Equal", x, split),
    NEQ: lambda body, x, split: body.add("Not", body.add("Equal", x, split)),
}


@dataclass
class Split:
    """An inner node. ``yes`` and ``no`` are numbers of splits, and leaf i has the number ~i."""

    feature: int
    value: float
    mode: int
    missing: bool
    yes: int
    no: int


@dataclass
class Forest:
    """All trees. ``leaves`` maps (leaf, result) to a weight.

    ``roots`` contains numbers of splits or leaves as in :class:`Split`.
    """

    splits: list[Split]
    roots: list[int]
    leaves: dict[tuple[int, int], float]
    leaf_count: int
    dtype: np.dtype[Any]

    def measure_depth(self) -> int:
        """Return the maximum number of splits from a root to a leaf.

        Raises ValueError if the splits have a cycle, or if a node does not exist.
        """
        depth, level = 0, set(self.roots)
        while level := {end for end in level if end >= 0}:
            depth += 1
            if depth > len(self.splits) or max(level) >= len(self.splits):
                raise ValueError
            level = {end for s in level for end in (self.splits[s].yes, self.splits[s].no)}
            if min(level) < -self.leaf_count:
                raise ValueError
        return depth

    def make_weights(self, results: int, other: float) -> npt.NDArray[Any]:
        """Return weights (leaves, results).

        The weight ``other`` fills the results that a leaf omits.
        """
        weights = np.full((self.leaf_count, results), other, self.dtype)
        for position, weight in self.leaves.items():
            weights[position] = weight
        return weights


def read_ints(body: NodeBuilder, name: str) -> list[int]:
    return list(body.attribute(name, []))


def read_forest(body: NodeBuilder, kind: str) -> Forest:
    """Return the trees of versions before 5. ``kind`` is class or target."""
    modes = [m.decode().removeprefix("BRANCH_") for m in body.attribute("nodes_modes", [])]
    is_leaf = np.array([mode == "LEAF" for mode in modes], bool)
    numbers = np.where(is_leaf, -np.cumsum(is_leaf), np.cumsum(~is_leaf) - 1).tolist()
    labels = zip(read_ints(body, "nodes_treeids"), read_ints(body, "nodes_nodeids"), strict=True)
    positions = dict(zip(labels, numbers, strict=True))
    values, weights = read_numbers(body, "nodes_values"), read_numbers(body, f"{kind}_weights")
    missing = read_ints(body, "nodes_missing_value_tracks_true") or [0] * len(modes)
    names = ("treeids", "featureids", "truenodeids", "falsenodeids")
    columns = [read_ints(body, f"nodes_{name}") for name in names]
    splits = []
    for mode, value, lost, tree, feature, *ends in zip(
        modes, values, missing, *columns, strict=True
    ):
        if mode != "LEAF":
            yes, no = (positions[tree, end] for end in ends)
            splits.append(Split(feature, value, MODES.index(mode), bool(lost), yes, no))
    leaves: dict[tuple[int, int], float] = {}
    columns = [read_ints(body, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids")]
    for tree, label, result, weight in zip(*columns, weights, strict=True):
        at = ~positions[tree, label], result
        leaves[at] = leaves.get(at, 0) + weight
    children = {end for split in splits for end in (split.yes, split.no)}
    roots = [number for number in numbers if number not in children]
    return Forest(splits, roots, leaves, int(is_leaf.sum()), values.dtype)


def read_trees(body: NodeBuilder, read: Callable[[], Forest], features: int) -> Forest:
    """Return the trees of a node.

    Raises UserError if trees are inconsistent, or if the input has too few features.
    """
    try:
        forest = read()
        forest.measure_depth()
    except (KeyError, ValueError, IndexError):
        body.refuse_inconsistent("its lists differ in length, or a tree leads to a missing node")
    unknown = [s.feature for s in forest.splits if not 0 <= s.feature < features]
    if unknown:
        body.refuse_inconsistent(
            f"it reads feature {unknown[0]}; expected 0 to {features - 1}, as its input has"
        )
    return forest


def read_numbers(body: NodeBuilder, name: str) -> npt.NDArray[Any]:
    """Return floats, or the doubles that replace the floats in version 3."""
    tensor = body.attribute(f"{name}_as_tensor", None)
    if tensor is not None:
        return numpy_helper.to_array(tensor)
    return np.array(body.attribute(name, []), "float32")


def read_ends(body: NodeBuilder, side: str) -> list[int]:
    """Return the successors of version 5, as numbers of splits or leaves as in :class:`Split`."""
    ends, are_leaves = (read_ints(body, f"nodes_{side}{name}") for name in ("nodeids", "leafs"))
    return [~end if is_leaf else end for end, is_leaf in zip(ends, are_leaves, strict=True)]


def read_ensemble(body: NodeBuilder) -> Forest:
    """Return the trees of version 5, in which nodes are splits."""
    values, modes, weights = (
        numpy_helper.to_array(body.attribute(name, None))
        for name in ("nodes_splits", "nodes_modes", "leaf_weights")
    )
    features = read_ints(body, "nodes_featureids")
    missing = read_ints(body, "nodes_missing_value_tracks_true") or [0] * len(features)
    yes, no = (read_ends(body, side) for side in ("true", "false"))
    splits = [
        Split(feature, value, int(mode), bool(lost), *ends)
        for feature, value, mode, lost, *ends in zip(
            features, values, modes, missing, yes, no, strict=True
        )
    ]
    members = body.attribute("membership_values", None)
    spread_members(splits, [] if members is None else numpy_helper.to_array(members).tolist())
    leaves = dict(zip(enumerate(read_ints(body, "leaf_targetids")), weights, strict=True))
    return Forest(splits, read_ints(body, "tree_roots"), leaves, len(weights), values.dtype)


def spread_members(splits: list[Split], members: list[float]) -> None:
    """Replace each test of a set with tests of its elements. NaN marks the end of a set."""
    rest = iter(members)
    for tested in [s for s in splits if s.mode == MEMBER]:
        split = tested
        elements = list(takewhile(lambda member: not np.isnan(member), rest))
        split.mode, split.value = EQ, elements[0] if elements else np.nan
        for element in elements[1:]:
            rest_of_set = Split(split.feature, element, EQ, split.missing, split.yes, split.no)
            split.no = len(splits)
            splits.append(rest_of_set)
            split = rest_of_set


class Tables:
    """Tables of the nodes of all trees, splits first, then leaves. Each table has one field."""

    def __init__(self, body: NodeBuilder, forest: Forest, dtype: np.dtype[Any]) -> None:
        self.body, self.first_leaf = body, len(forest.splits)
        same = forest.splits[0].mode if forest.splits else LEQ
        leaves = [Split(0, 0, same, False, ~i, ~i) for i in range(forest.leaf_count)]
        nodes = [*forest.splits, *leaves]
        self.roots = [self.number(root) for root in forest.roots]
        self.modes = sorted({s.mode for s in nodes})
        self.has_missing = any(s.missing for s in nodes)
        self.feature = self.store([s.feature for s in nodes])
        self.value = self.store([s.value for s in nodes], dtype)
        self.mode = self.store([s.mode for s in nodes])
        self.missing = self.store([s.missing for s in nodes], bool)
        self.ends = [self.store([self.number(getattr(s, e)) for s in nodes]) for e in ("yes", "no")]

    def number(self, end: int) -> int:
        return end if end >= 0 else self.first_leaf + ~end

    def store(self, values: list[Any], dtype: npt.DTypeLike | None = None) -> str:
        """Append a table. The default type is the smallest type for the table's values."""
        array = np.array(values, dtype or np.min_scalar_type(max(values)))
        return self.body.constant(array, array.dtype)

    def look_up(self, table: str, position: str) -> str:
        return self.body.add("Cast", self.body.add("Gather", table, position), to=TensorProto.INT32)

    def choose(self, x: str, position: str) -> str:
        """Append one step, which moves from the nodes at ``position`` to their successors."""
        body = self.body
        value = body.add("GatherElements", x, self.look_up(self.feature, position), axis=1)
        limit = body.add("Gather", self.value, position)
        goes = COMPARISONS[self.modes[0]](body, value, limit)
        for mode in self.modes[1:]:
            here = body.add(
                "Equal", self.look_up(self.mode, position), body.constant(mode, "int32")
            )
            goes = body.add("Where", here, COMPARISONS[mode](body, value, limit), goes)
        if self.has_missing:
            lost = body.add("Gather", self.missing, position)
            goes = body.add("Or", goes, body.add("And", body.add("IsNaN", value), lost))
        return body.add("Where", goes, *(self.look_up(end, position) for end in self.ends))


def add_leaves(body: NodeBuilder, forest: Forest) -> str:
    """Append the steps from the roots, and return the leaf in each tree, (rows, trees)."""
    shape = body.shape(0) or (1,)
    given = body.dtype(0)
    dtype = given if given == np.dtype("float64") else forest.dtype
    x = body.cast(body.input(0), dtype)
    x = body.reshape(x, [-1, shape[-1]])
    tables = Tables(body, forest, dtype)
    rows = shape[0] if len(shape) > 1 else 1
    position = body.constant([tables.roots] * rows, "int32")
    for _ in range(forest.measure_depth()):
        position = tables.choose(x, position)
    return body.add("Sub", position, body.constant(tables.first_leaf, "int32"))


SUM, AVERAGE, MIN, MAX = "SUM", "AVERAGE", "MIN", "MAX"

AGGREGATES = {
    SUM: ("ReduceSum", 0.0),
    AVERAGE: ("ReduceMean", 0.0),
    MIN: ("ReduceMin", np.inf),
    MAX: ("ReduceMax", -np.inf),
}
"""The reduction of the trees' weights, and a leaf's weight for an omitted result."""


def add_results(body: NodeBuilder, forest: Forest, results: int, kind: str = SUM) -> str:
    """Append the reduced weights of the leaves: (rows, results)."""
    operator, other = AGGREGATES[kind]
    weights = forest.make_weights(results, other)
    table = body.constant(weights, weights.dtype)
    leaf_weights = body.add("Gather", table, add_leaves(body, forest), axis=0)
    total = body.reduce(operator, leaf_weights, 1)
    if np.isinf(weights).any():
        total = body.add("Where", body.add("IsInf", total), body.constant(0, weights.dtype), total)
    return body.reshape(total, [-1, results])


def finish_results(
    body: NodeBuilder, forest: Forest, results: int, kind: str, transform: str
) -> Nodes:
    """Append base values and the final transform. The results have the type of the output."""
    known = {result for _, result in forest.leaves}
    if known != {*range(results)}:
        body.refuse_inconsistent(
            f"it has weights for the results {sorted(known)}; expected weights for all results, 0 "
            f"to {results - 1}"
        )
    if results == 1 and transform != "NONE":
        body.refuse(
            f"it has one result and a post_transform, {transform}, which ONNX Runtime "
            "ignores; export the model without it"
        )
    total = add_results(body, forest, results, kind)
    base = read_numbers(body, "base_values")
    if base.size:
        total = body.add("Add", total, body.constant(base, forest.dtype))
    body.walk.infer_types(body.node)
    wanted = body.walk.types.get(body.node.output[0], onnx.TypeProto()).tensor_type.elem_type
    total = body.add("Cast", total, to=wanted or TensorProto.FLOAT)
    return body.finish(add_transform(body, total, transform))


def count_features(body: NodeBuilder) -> int:
    return (body.shape(0) or (0,))[-1]


def rewrite_tree_regressor(body: NodeBuilder) -> Nodes:
    forest = read_trees(body, lambda: read_forest(body, "target"), count_features(body))
    return finish_results(
        body, forest, body.attribute("n_targets", 1),
        body.attribute("aggregate_function", SUM),
        body.attribute("post_transform", "NONE"),
    )  # fmt: skip


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms of the results in the order of their numbers in version 5."""


def rewrite_ensemble(body: NodeBuilder) -> Nodes:
    forest = read_trees(body, lambda: read_ensemble(body), count_features(body))
    kind = (AVERAGE, SUM, MIN, MAX)[body.attribute("aggregate_function", 1)]
    transform = TRANSFORMS[body.attribute("post_transform", 0)]
    return finish_results(body, forest, body.attribute("n_targets", 1), kind, transform)


def rewrite_tree_classifier(body: NodeBuilder) -> Nodes:
    """Rewrite a TreeEnsembleClassifier, whose results are the label and all scores.

    The trees may have weights of only one of two classes. The score of this class is compared with
    0.5 if no weight is negative, and otherwise with 0. The score of the other class is 1 minus this
    score, or the negative of this score.
    """
    labels = get_labels(body)
    forest = read_trees(body, lambda: read_forest(body, "class"), count_features(body))
    transform = body.attribute("post_transform", "NONE")
    base = read_numbers(body, "base_values")
    known = sorted({result for _, result in forest.leaves})
    if len(labels) == 2 and known == [0] and base.size < 2 and transform != "SOFTMAX":
        return body.finish(*add_two_classes(body, forest, base, transform))
    if len(labels) < 3 or known != [*range(len(labels))]:
        body.refuse(
            f"it has weights of the classes {known}, {base.size} base values and post_transform "
            f"{transform} for {len(labels)} labels; ONNX Runtime and ONNX compute different "
            "results. Write two classes as weights of class 0 with NONE or LOGISTIC, as "
            "scikit-learn's converter does. Write three or more classes as weights of each class"
        )
    total = add_results(body, forest, len(labels))
    if base.size:
        total = body.add("Add", total, body.constant(base, forest.dtype))
    best = body.add("ArgMax", total, axis=-1, keepdims=0)
    label = body.add("Gather", body.constant(labels, labels.dtype), best, axis=0)
    total = body.cast(total, "float32")
    return body.finish(label, add_transform(body, total, transform))


def add_two_classes(
    body: NodeBuilder, forest: Forest, base: Any, transform: str
) -> tuple[str, str]:
    score = add_results(body, forest, 1)
    if base.size:
        score = body.add("Add", score, body.constant(base, forest.dtype))
    is_probability = all(weight >= 0 for weight in forest.leaves.values())
    limit = body.constant(0.5 if is_probability else 0, forest.dtype)
    above = body.add("Reshape", body.add("Greater", score, limit), body.constant([-1], "int64"))
    labels = get_labels(body)
    label = body.add(
        "Gather",
        body.constant(labels, labels.dtype),
        body.cast(above, "int64"),
        axis=0,
    )
    score = body.cast(score, "float32")
    if is_probability and transform != "LOGISTIC":
        other = body.add("Sub", body.constant(1), score)
    else:
        other = body.add("Neg", score)
    return label, add_transform(body, body.add("Concat", other, score, axis=1), transform)


TREES: dict[str, Rewrite] = {
    "ai.onnx.ml.TreeEnsemble": rewrite_ensemble,
    "ai.onnx.ml.TreeEnsembleClassifier": rewrite_tree_classifier,
    "ai.onnx.ml.TreeEnsembleRegressor": rewrite_tree_regressor,
}
