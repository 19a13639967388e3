"""Matches layers of DIANA's accelerator: the operators from the int32 sums to the int8 result.

A layer has this form, in which A is a convolution, a matrix product, or the sum of two casts to
int32:

    A -> [add bias] -> right_shift -> clip … -> astype int8 -> [clip …]

A clip may be a maximum, a minimum or a ReLU instead. The rules in
:mod:`firmwright.devices.soma_dory.rules` decide whether the accelerator can run a match.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.ir.chains import CONVOLUTION, PRODUCT
from firmwright.ir.layer import Array, LayerKind
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    list_bindings,
    operator_name,
    read_variables,
    static_shape,
)

SUM = "relax.add"
INT8_RANGE = (-128.0, 127.0)
UNBOUNDED = (-math.inf, math.inf)
CLIP_RANGES = (INT8_RANGE, (0.0, 127.0))
"""The ranges to which the accelerator clips its results: int8, or its positive half with ReLU."""

ANALOG_OPERATORS = tuple(
    f"relax.{name}" for name in "divide floor multiply add right_shift".split()
)
"""The operators after a convolution on DIANA's analog core, between casts and clips.

They are the core's converter, then a batch normalization.
"""


@dataclass(frozen=True)
class MatchedSums:
    """The int32 sums ``result`` of a match.

    ``anchor`` binds the convolution, the product or the addition. ``variables`` are the variables
    of the anchor and of the addition of the bias. ``inputs`` has one activation tensor, or two for
    an addition. ``bias`` is None without a bias, and ``weights`` is None for an addition.
    """

    kind: LayerKind
    anchor: relax.VarBinding
    variables: tuple[relax.Var, ...]
    result: relax.Var
    inputs: tuple[relax.Expr, ...]
    weights: relax.Expr | None = None
    bias: relax.Expr | None = None


@dataclass(frozen=True)
class Conversion:
    """The analog core's conversion of sums, see `firmwright.devices.soma_dory.accelerator_layer`.

    ``step`` is None if the divisor is not a single number. ``codes`` is the range of the
    converter's clip. ``input_range`` is the range of the activations.
    """

    step: float | None
    codes: tuple[float, float]
    factors: relax.Expr
    input_range: tuple[int, int]


@dataclass(frozen=True)
class Match:
    """The operators of a matched layer: its sums, and the requantization of the sums.

    ``variables`` are the variables of all these operators, in order of execution. The last variable
    is the result. ``clip_range`` is the range of the results. Sums of the analog core have a
    ``conversion``.
    """

    sums: MatchedSums
    variables: tuple[relax.Var, ...]
    shift: relax.Expr
    clip_range: tuple[float, float]
    conversion: Conversion | None = None

    @property
    def kind(self) -> LayerKind:
        return self.sums.kind

    @property
    def result(self) -> relax.Var:
        return self.variables[-1]


@dataclass(frozen=True)
class UnmatchedOperator:
    """An operator that could start a layer, but has no requantization after it."""

    anchor: relax.VarBinding
    followers: tuple[str, ...]

    @property
    def is_analog(self) -> bool:
        telling = tuple(f for f in self.followers if f not in ("relax.astype", "relax.clip"))
        return telling[: len(ANALOG_OPERATORS)] == ANALOG_OPERATORS

    @property
    def first_followers(self) -> tuple[str, ...]:
        """Return as many operators as a requantization has."""
        return tuple(name.removeprefix("relax.") for name in self.followers[:4])


@dataclass(frozen=True)
class IntegerOperation:
    """A sum or product of integers.

    ``variables`` are the variables of its operators, without its operands.
    """

    operands: tuple[relax.Expr, relax.Expr]
    variables: tuple[relax.Var, ...]
    result: relax.Var


def find_layers(function: relax.Function) -> tuple[list[Match], list[UnmatchedOperator]]:
    """Return matched layers, and operators that only start like a layer, in order of execution."""
    return OperatorGraph(function).match_layers()


class OperatorGraph:
    def __init__(self, function: relax.Function) -> None:
        self.bindings = list_bindings(function)
        self.bound = {b.var: b for b in self.bindings}
        self.readers: dict[relax.Var, list[relax.VarBinding]] = {}
        for binding in self.bindings:
            for variable in read_variables(binding.value):
                self.readers.setdefault(variable, []).append(binding)
        self.returned = Counter(read_variables(function.body.body))

    def match_layers(self) -> tuple[list[Match], list[UnmatchedOperator]]:
        matches: list[Match] = []
        unmatched: list[UnmatchedOperator] = []
        for binding in self.bindings:
            name = operator_name(binding.value)
            if name in (CONVOLUTION, PRODUCT):
                sums: MatchedSums | None = self.match_product(binding)
            elif name == SUM and self.is_activation_add(binding):
                sums = self.match_activation_add(binding)
            else:
                continue
            match = None if sums is None else self.match_requantize(sums)
            if match is None:
                unmatched.append(UnmatchedOperator(binding, tuple(self.followers(binding.var))))
            else:
                matches.append(match)
        inside = {v for m in matches for v in m.variables}
        return matches, [u for u in unmatched if u.anchor.var not in inside]

    def resolve(self, expression: relax.Expr) -> relax.Expr:
        """Return the expression of a bound variable, or the unchanged expression."""
        bound = self.bound.get(expression) if isinstance(expression, relax.Var) else None
        return expression if bound is None else bound.value

    def find_sole_reader(self, variable: relax.Var) -> relax.VarBinding | None:
        readers = self.readers.get(variable, [])
        return readers[0] if len(readers) == 1 and not self.returned[variable] else None

    def followers(self, variable: relax.Var) -> Iterator[str]:
        """Yield the operators after a variable while each operator has a single reader."""
        reader = self.find_sole_reader(variable)
        while reader is not None:
            yield operator_name(reader.value)
            reader = self.find_sole_reader(reader.var)

    def is_activation_add(self, binding: relax.VarBinding) -> bool:
        """Return whether a sum adds two tensors, not a constant or a bias."""
        values = [self.resolve(a) for a in binding.value.args]
        values += [self.resolve(v.args[0]) for v in values if operator_name(v) == "relax.astype"]
        sums = (CONVOLUTION, PRODUCT)
        return not any(isinstance(v, Constant) or operator_name(v) in sums for v in values)

    def match_arithmetic(
        self, binding: relax.VarBinding | None, operator: str, dtype: str = "int32"
    ) -> IntegerOperation | None:
        """Return a sum or product, or None.

        The operator may be on uint32 between casts, because uint32 wraps in C.
        """
        if binding is None or operator_name(binding.value) != operator:
            return None
        if dtype_of(binding.var) == dtype:
            return IntegerOperation(tuple(binding.value.args), (binding.var,), binding.var)
        casts = [self.resolve(a) for a in binding.value.args]
        end = self.find_sole_reader(binding.var)
        if end is None or not all(is_cast(v, "uint32") for v in casts):
            return None
        if not is_cast(end.value, "int32") or any(dtype_of(c.args[0]) != "int32" for c in casts):
            return None
        first, second = (c.args[0] for c in casts)
        variables = (*binding.value.args, binding.var, end.var)
        return IntegerOperation((first, second), variables, end.var)

    def match_product(self, binding: relax.VarBinding) -> MatchedSums:
        call = binding.value
        kind = LayerKind.DENSE
        if operator_name(call) == CONVOLUTION:
            kind = LayerKind.CONV2D if int(call.attrs.groups) == 1 else LayerKind.DEPTHWISE_CONV2D
        start = MatchedSums(
            kind, binding, (binding.var,), binding.var, (call.args[0],), call.args[1]
        )
        reader = self.find_sole_reader(binding.var)
        if reader is not None and is_cast(reader.value, "uint32"):
            reader = self.find_sole_reader(reader.var)
        addition = self.match_arithmetic(reader, SUM)
        if addition is None:
            return start
        first, second = addition.operands
        return replace(
            start,
            variables=(binding.var, *addition.variables),
            result=addition.result,
            bias=second if first.same_as(binding.var) else first,
        )

    def match_activation_add(self, binding: relax.VarBinding) -> MatchedSums | None:
        addition = self.match_arithmetic(binding, SUM)
        if addition is None:
            return None
        casts = [self.resolve(o) for o in addition.operands]
        if not all(is_cast(c, "int32") for c in casts):
            return None
        variables = (*addition.operands, *addition.variables)
        inputs = tuple(c.args[0] for c in casts)
        return MatchedSums(LayerKind.ADD, binding, variables, addition.result, inputs)

    def match_requantize(self, sums: MatchedSums) -> Match | None:
        """Return the match of the shift, clips and cast after sums, or None.

        Only the last result may have readers outside the match.
        """
        shift = self.find_sole_reader(sums.result)
        if shift is None or operator_name(shift.value) != "relax.right_shift":
            return None
        if not shift.value.args[0].same_as(sums.result):
            return None
        results, clipped = [shift.var], UNBOUNDED
        reader = self.find_sole_reader(shift.var)
        count = self.resolve(shift.value.args[1])
        if operator_name(count) == "relax.where" and reader is not None:
            # One ``where`` replaces a shift count that is too large. A second ``where`` replaces
            # the result of that shift.
            count = count.args[1]
            results.append(reader.var)
            reader = self.find_sole_reader(reader.var)
        while reader is not None and (bounds := read_clip_bounds(reader.value)):
            results.append(reader.var)
            clipped = intersect(clipped, bounds)
            reader = self.find_sole_reader(reader.var)
        if reader is None or operator_name(reader.value) != "relax.astype":
            return None
        results.append(reader.var)
        reader = self.find_sole_reader(reader.var)
        while reader is not None and (bounds := read_clip_bounds(reader.value)):
            if clipped not in CLIP_RANGES or intersect(clipped, bounds) not in CLIP_RANGES:
                break
            results.append(reader.var)
            clipped = intersect(clipped, bounds)
            reader = self.find_sole_reader(reader.var)
        inside = {*sums.variables, *results}
        variables = tuple(b.var for b in self.bindings if b.var in inside)
        if any(self.find_sole_reader(v) is None for v in variables[:-1]):
            return None
        return Match(sums, variables, count, clipped)


def is_cast(value: relax.Expr, dtype: str) -> bool:
    return operator_name(value) == "relax.astype" and str(value.attrs.dtype) == dtype


def intersect(outer: tuple[float, float], inner: tuple[float, float]) -> tuple[float, float]:
    return max(outer[0], inner[0]), min(outer[1], inner[1])


def read_layer(function: relax.Function) -> AcceleratorLayer:
    """Return the layer that a region's function computes. The layer must break no rule."""
    (match,), _ = find_layers(function)
    return make_layer(match)


def make_layer(match: Match) -> AcceleratorLayer:
    """Return the layer of operators that break no rule, without a check of its geometry."""
    sums = match.sums
    weights = None if sums.weights is None else constant_array(sums.weights)
    if weights is not None and match.kind is LayerKind.DENSE:
        weights = np.ascontiguousarray(weights.T)
    kernel, strides, padding = (1, 1), (1, 1), (0, 0, 0, 0)
    if weights is not None and match.kind is not LayerKind.DENSE:
        attributes = sums.anchor.value.attrs
        kernel = (weights.shape[2], weights.shape[3])
        strides = (int(attributes.strides[0]), int(attributes.strides[1]))
        top, left, bottom, right = (int(p) for p in attributes.padding)
        padding = (top, left, bottom, right)
    batch, channels, height, width = image_shape(match.kind, sums.inputs[0])
    _, out_channels, out_height, out_width = image_shape(match.kind, match.result)
    shift, results = read_scalar(match.shift), static_shape(sums.result)
    assert shift is not None  # a rule checks this
    conversion = match.conversion
    return AcceleratorLayer(
        kind=match.kind,
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        out_channels=out_channels,
        out_height=out_height,
        out_width=out_width,
        kernel=kernel,
        strides=strides,
        padding=padding,
        shift=shift,
        relu=match.clip_range[0] == 0,
        weights=weights,
        bias=None if weights is None else read_channel_bias(sums.bias, results),
        step=int(conversion.step or 0) if conversion else 0,
        factors=read_channel_bias(conversion.factors, results) if conversion else None,
    )


def image_shape(kind: LayerKind, tensor: relax.Expr) -> tuple[int, ...]:
    """Return (batch, channels, height, width). Added vectors are rows of an image."""
    batch, *shape = static_shape(tensor)
    if len(shape) == 3:
        return batch, *shape
    return (batch, 1, 1, *shape) if kind is LayerKind.ADD else (batch, *shape, 1, 1)


def read_scalar(value: relax.Expr) -> int | None:
    """Return the integer in a constant of one element, or None for other expressions."""
    if not isinstance(value, Constant) or constant_array(value).size != 1:
        return None
    return int(constant_array(value).reshape(-1)[0])


def read_number(value: relax.Expr) -> float | None:
    """Return the number that all elements of a constant equal, or None for other expressions."""
    numbers = set(constant_array(value).reshape(-1).tolist()) if isinstance(value, Constant) else ()
    return float(*numbers) if len(numbers) == 1 else None


def read_channel_bias(bias: relax.Expr | None, shape: tuple[int, ...]) -> Array | None:
    """Return the bias of sums of ``shape`` by channel: int32 (channels,), or zeros without a bias.

    The result is None if the bias is not a constant, or differs along another axis than the second.
    """
    channels = shape[1]
    if bias is None:
        return np.zeros(channels, "int32")
    if not isinstance(bias, Constant):
        return None
    array = constant_array(bias)
    along = (1,) * (len(shape) - array.ndim) + array.shape
    if along not in ((1, channels, *(1,) * (len(shape) - 2)), (1,) * len(shape)):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,)).copy()
