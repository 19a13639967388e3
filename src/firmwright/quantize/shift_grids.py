"""Powers of two that a network of shifts can keep: what is added shares one, no shift is negative.

A layer's sum counts steps of input scale · weight scale. To become steps of the result's grid it
is shifted to the right, so that grid must not be finer than the sum's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

import onnx
from onnxruntime.quantization.operators.direct_q8 import QDQDirect8BitOp
from onnxruntime.quantization.operators.maxpool import QDQMaxPool
from onnxruntime.quantization.registry import QDQRegistry

from firmwright.quantize.activations import ACTIVATIONS
from firmwright.quantize.grids import IntegerGrid
from firmwright.quantize.weights import Weight, weight_grids

AVERAGES = ("AveragePool",)
"""The library gives their result the input's grid, though averages reach less far."""
SAME_GRID = {
    *(k for k, handler in QDQRegistry.items() if issubclass(handler, QDQDirect8BitOp | QDQMaxPool)),
    *ACTIVATIONS,
} - set(AVERAGES)
"""Operators whose result is on their first input's grid."""

JOINING = ("Add", "Concat")
"""Operators whose inputs and result share a grid. An addition's result could be one bit coarser;
but shifting rounds down, and that errs as much as inputs one bit coarser do."""


@dataclass(frozen=True)
class NotFiner:
    """``result``'s exponent is at least ``source``'s plus ``steps``."""

    result: str
    source: str
    steps: int


def shift_grids(
    model: onnx.ModelProto, grids: Mapping[str, IntegerGrid], weights: Sequence[Weight]
) -> dict[str, IntegerGrid]:
    """Return the grids, some of them coarser: the least change after which all shifts are possible.

    ``grids`` are powers of two; a constant of zero, whose grid could be any, has scale 1.
    """
    roots = Tied(grids)
    for names in same_grid(model):
        roots.tie([n for n in names if n in grids])
    rules = [r for r in lower_limits(model, grids, weights) if {r.result, r.source} <= set(grids)]
    exponents: dict[str, int] = {}
    for name, grid in grids.items():
        root = roots.of(name)
        exponents[root] = max(exponents.get(root, -(10**6)), exponent(grid.scale))
    changed = True
    while changed:
        changed = False
        for rule in rules:
            least = exponents[roots.of(rule.source)] + rule.steps
            if exponents[roots.of(rule.result)] < least:
                exponents[roots.of(rule.result)] = least
                changed = True
    return {n: replace(g, scale=2.0 ** exponents[roots.of(n)]) for n, g in grids.items()}


def exponent(scale: float) -> int:
    return round(log2(scale))


class Tied:
    """Tensors in groups that share a grid; a group goes by one of its members."""

    def __init__(self, names: Mapping[str, IntegerGrid]) -> None:
        self.parents = {name: name for name in names}

    def of(self, name: str) -> str:
        while self.parents[name] != name:
            name = self.parents[name]
        return name

    def tie(self, names: Sequence[str]) -> None:
        for name in names[1:]:
            self.parents[self.of(name)] = self.of(names[0])


def same_grid(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Yield groups of tensors that have to share a grid."""
    for node in model.graph.node:
        if node.op_type in SAME_GRID:
            yield [node.input[0], node.output[0]]
        elif node.op_type in JOINING:
            yield [*node.input, node.output[0]]


def lower_limits(
    model: onnx.ModelProto, grids: Mapping[str, IntegerGrid], weights: Sequence[Weight]
) -> Iterator[NotFiner]:
    """Yield what sums ask of their results' grids.

    Inputs' grids only get coarser later. Then a weight's scale, which its bias may have raised,
    gets finer if anything, so that what is asked for here is still enough.
    """
    scales = {
        w.name: weight_grids(w, grids[w.input].scale, per_channel=False, powers_of_two=True)[0]
        for w in weights
        if w.input in grids
    }
    for node in model.graph.node:
        if len(node.input) > 1 and node.input[1] in scales:
            yield NotFiner(node.output[0], node.input[0], exponent(scales[node.input[1]].scale))
