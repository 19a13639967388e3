"""Masks of attention are not larger than the scores require, and do not change a result."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.masks import MARGIN, bound_masks
from firmwright.quantize.qdq_graph import quantize

from .networks import Array, graph_of, options, ready, samples

LEAST = float(np.finfo("float32").min)


def masked_softmax(kind: str, mask: Array) -> onnx.ModelProto:
    """Return a softmax over the rows of ``x`` (1x3x8x8), masked, as a model with one output."""
    node = helper.make_node
    inputs = {"Add": ["mask", "x"], "Where": ["kept", "x", "mask"], "Chosen": ["x", "chosen"]}[kind]
    arrays = {"mask": mask, "kept": np.tri(8, dtype=bool), "shape": np.array([1, -1])}
    arrays["zero"] = np.zeros((), "float32")
    choice = [
        node("Equal", ["x", "x"], ["same"], "comparison"),
        node("And", ["same", "kept"], ["below"], "both"),
        node("Where", ["below", "zero", "mask"], ["chosen"], "choice"),
    ]
    nodes = [
        *(choice if kind == "Chosen" else ()),
        node("Where" if kind == "Where" else "Add", inputs, ["scores"], "masking"),
        node("Softmax", ["scores"], ["weights"], "softmax", axis=-1),
        node("Reshape", ["weights", "shape"], ["y"], "flat"),
    ]
    used = {name: array for name, array in arrays.items() if any(name in n.input for n in nodes)}
    return ready(graph_of(nodes, used, 192))


def causal(least: float, offset: float = 0.0) -> Array:
    return np.where(np.tri(8, dtype=bool), offset, least).astype("float32")


@pytest.mark.parametrize(
    ("kind", "mask"),
    [
        ("Add", causal(-np.inf)),
        ("Add", causal(LEAST)),
        ("Add", causal(-1e9, -2.5)),
        ("Where", np.array(-np.inf, "float32")),
        ("Where", np.array(-1e4, "float32")),
        ("Chosen", np.array(-1e4, "float32")),
    ],
    ids=["inf", "least", "with-a-bias", "where", "ten-thousand", "at-run-time"],
)
def test_masked_scores_are_quantized(kind: str, mask: Array) -> None:
    model, given = masked_softmax(kind, mask), samples(8)
    bounded = bound_masks(model, given)
    found = calibrate(bounded, given)
    masked, scores = found["scores"], found["x"]
    assert scores.lowest - masked.lowest < scores.highest - scores.lowest + 3 + MARGIN
    quantized = quantize(bounded, found, options(), given)
    for ours, theirs in zip(evaluate(quantized, given), evaluate(model, given), strict=True):
        np.testing.assert_allclose(ours["y"], theirs["y"], atol=0.03)


def test_a_sum_that_others_read_stays() -> None:
    model = masked_softmax("Add", causal(LEAST))
    model.graph.node.append(helper.make_node("Relu", ["scores"], ["more"], "other"))
    assert bound_masks(model, samples(1)) is model
