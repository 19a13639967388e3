"""Coarsens scales so that addends share a scale and no shift is negative.

A layer's sum counts steps of input scale · weight scale. The sum is shifted to the right to count
steps of the result's scale. Therefore the result's scale must not be smaller than the scale of the
sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

import onnx
from onnxruntime.quantization.operators.direct_q8 import QDQDirect8BitOp
from onnxruntime.quantization.operators.maxpool import QDQMaxPool
from onnxruntime.quantization.registry import QDQRegistry

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.activations import ACTIVATIONS
from firmwright.quantize.weights import Weight, choose_weight_params

AVERAGES = ("AveragePool",)
"""Operators whose results get the parameters of the input in ONNX Runtime, although averages
have smaller ranges.
"""
SAME_SCALE_OPERATORS = {
    *(k for k, handler in QDQRegistry.items() if issubclass(handler, QDQDirect8BitOp | QDQMaxPool)),
    *ACTIVATIONS,
} - set(AVERAGES)
"""Operators whose result has the quantization parameters of their first input."""

JOINING_OPERATORS = ("Add", "Concat")
"""Operators whose inputs and result share a scale. An addition's result could be one bit
coarser. However, a shift rounds down, and its error is as large as the error of inputs that are
one bit coarser.
"""


@dataclass(frozen=True)
class ExponentBound:
    """A bound: the exponent of ``result`` is at least the exponent of ``source`` plus ``steps``."""

    result: str
    source: str
    steps: int


def coarsen_scales(
    model: onnx.ModelProto, params_of: Mapping[str, QuantParams], weights: Sequence[Weight]
) -> dict[str, QuantParams]:
    """Return the parameters with the minimum increase of scales that makes all shifts possible.

    ``params_of`` are powers of two. A tensor that is always zero fits any scale, and has the scale
    1.
    """
    roots = ScaleGroups(params_of)
    for names in find_scale_groups(model):
        roots.merge([n for n in names if n in params_of])
    rules = [
        r
        for r in find_exponent_bounds(model, params_of, weights)
        if {r.result, r.source} <= set(params_of)
    ]
    exponents: dict[str, int] = {}
    for name, params in params_of.items():
        root = roots.find(name)
        exponents[root] = max(exponents.get(root, -(10**6)), exponent(params.scale))
    changed = True
    while changed:
        changed = False
        for rule in rules:
            least = exponents[roots.find(rule.source)] + rule.steps
            if exponents[roots.find(rule.result)] < least:
                exponents[roots.find(rule.result)] = least
                changed = True
    return {n: replace(g, scale=2.0 ** exponents[roots.find(n)]) for n, g in params_of.items()}


def exponent(scale: float) -> int:
    return round(log2(scale))


class ScaleGroups:
    """Groups of tensors that share quantization parameters. One member represents each group."""

    def __init__(self, names: Mapping[str, QuantParams]) -> None:
        self.parents = {name: name for name in names}

    def find(self, name: str) -> str:
        while self.parents[name] != name:
            name = self.parents[name]
        return name

    def merge(self, names: Sequence[str]) -> None:
        for name in names[1:]:
            self.parents[self.find(name)] = self.find(names[0])


def find_scale_groups(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Yield groups of tensors that have to share quantization parameters."""
    for node in model.graph.node:
        if node.op_type in SAME_SCALE_OPERATORS:
            yield [node.input[0], node.output[0]]
        elif node.op_type in JOINING_OPERATORS:
            yield [*node.input, node.output[0]]


def find_exponent_bounds(
    model: onnx.ModelProto, params_of: Mapping[str, QuantParams], weights: Sequence[Weight]
) -> Iterator[ExponentBound]:
    """Yield the bounds that sums require of their results' scales.

    Scales of inputs only become larger later. Therefore the scale of a weight, which the bias may
    have raised, can only become smaller. Therefore the bounds are still sufficient.
    """
    scales = {
        w.name: choose_weight_params(
            w, params_of[w.input].scale, per_channel=False, powers_of_two=True
        )[0]
        for w in weights
        if w.input in params_of
    }
    for node in model.graph.node:
        if len(node.input) > 1 and node.input[1] in scales:
            yield ExponentBound(
                node.output[0], node.input[0], exponent(scales[node.input[1]].scale)
            )
