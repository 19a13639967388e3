"""Matches layers of DIANA's analog core: sums, a converter of 6 bits, a batch normalization.

    conv2d -> divide -> floor -> clip -> multiply -> add -> right_shift -> clip -> astype int8

HTVM writes casts between these operators. :mod:`firmwright.transforms.integers` writes a right
shift instead of a division by a power of two that rounds down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import relax

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.matching import (
    SUM,
    UNBOUNDED,
    Conversion,
    Match,
    MatchedSums,
    OperatorGraph,
    intersect,
    is_cast,
    make_layer,
    read_number,
)
from firmwright.ir.chains import CONVOLUTION
from firmwright.ir.layer import LayerKind
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import Constant, dtype_of, operator_name
from firmwright.transforms.integers.ranges import Range, find_ranges

WIDE = ("int16", "int32", "uint32")
"""Types that can hold the results of a batch normalization, according to a rule on its numbers."""


def find_analog_layers(function: relax.Function) -> list[Match]:
    """Return the matched layers of the analog core, in order of execution."""
    graph = OperatorGraph(function)
    convolutions = [b for b in graph.bindings if operator_name(b.value) == CONVOLUTION]
    ranges = find_ranges(list(function.params), graph.bindings) if convolutions else {}
    matches = (match_analog(graph, binding, ranges) for binding in convolutions)
    return [match for match in matches if match is not None]


def read_analog_layer(function: relax.Function) -> AcceleratorLayer:
    """Return the layer that a region's function computes. The layer must break no rule."""
    (match,) = find_analog_layers(function)
    return make_layer(match)


def match_analog(
    graph: OperatorGraph, anchor: relax.VarBinding, ranges: Mapping[relax.Var, Range]
) -> Match | None:
    """Return the match from a convolution to its int8 result, or None if the operators differ."""
    walk = Walk(graph, anchor.var)
    walk.pass_casts("float32")
    if (division := walk.take("relax.divide")) is not None:
        step = read_number(division.value.args[1])
        if dtype_of(division.var) != "float32" or walk.take("relax.floor") is None:
            return None
    elif (division := walk.take("relax.right_shift")) is not None:
        count = read_number(division.value.args[1])
        step = None if count is None else 2.0**count
    else:
        return None
    codes = walk.pass_clips()
    walk.pass_casts("int8", *WIDE)
    factors = walk.take_arithmetic("relax.multiply")
    walk.pass_casts(*WIDE)
    offsets = walk.take_arithmetic(SUM)
    if factors is None or offsets is None:
        return None
    image, weights = anchor.value.args
    sums = MatchedSums(
        LayerKind.ANALOG_CONV2D, anchor, tuple(walk.variables), walk.variables[-1], (image,),
        weights, offsets,
    )  # fmt: skip
    match = graph.match_requantize(sums)
    held = ranges[image]
    input_range = int(held.low.min()), int(held.high.max())
    return match and replace(match, conversion=Conversion(step, codes, factors, input_range))


class Walk:
    """Follows a tensor from operator to operator. ``variables`` are the variables on the path."""

    def __init__(self, graph: OperatorGraph, start: relax.Var) -> None:
        self.graph, self.variables = graph, [start]

    def find_next(self) -> relax.VarBinding | None:
        return self.graph.find_sole_reader(self.variables[-1])

    def take(self, operator: str) -> relax.VarBinding | None:
        """Pass one operator of this name and return its binding, or None if the next operator
        differs."""
        binding = self.find_next()
        if binding is None or operator_name(binding.value) != operator:
            return None
        self.variables.append(binding.var)
        return binding

    def pass_casts(self, *dtypes: str) -> None:
        while (binding := self.find_next()) and any(is_cast(binding.value, t) for t in dtypes):
            self.variables.append(binding.var)

    def pass_clips(self) -> tuple[float, float]:
        """Pass all clips that follow directly, and return their common range."""
        clipped = UNBOUNDED
        while (binding := self.find_next()) and (bounds := read_clip_bounds(binding.value)):
            clipped = intersect(clipped, bounds)
            self.variables.append(binding.var)
        return clipped

    def take_arithmetic(self, operator: str) -> relax.Expr | None:
        """Pass a sum or product with a constant and return the constant, or None if the next
        operator differs."""
        binding = self.find_next()
        dtype = "int16" if binding and dtype_of(binding.var) == "int16" else "int32"
        match = self.graph.match_arithmetic(binding, operator, dtype)
        constants = [o for o in match.operands if isinstance(o, Constant)] if match else []
        if match is None or len(constants) != 1:
            return None
        self.variables += [v for v in match.variables if v not in self.variables]
        return constants[0]
