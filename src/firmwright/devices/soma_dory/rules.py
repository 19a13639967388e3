"""Checks whether the accelerator can run a layer, with the rules of ``rules.yaml``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.devices.soma_dory.matching import (
    INT8_RANGE,
    Conversion,
    Match,
    read_channel_bias,
    read_scalar,
)
from firmwright.devices.soma_dory.tiling import explain_no_tiling
from firmwright.ir.layer import LayerKind
from firmwright.ir.nodes import Expr
from firmwright.ir.regions import RuleViolation
from firmwright.ir.relax import Constant, constant_array, dtype_of, static_shape
from firmwright.targets.rules import Rule, find_violations, read_rules

ANALOG_CODES = (-32, 31)
"""The minimum and maximum result of the analog core's converter."""


@dataclass(frozen=True)
class SomaRules:
    operators: tuple[Rule, ...]
    layer: tuple[Rule, ...]


@cache
def soma_rules() -> SomaRules:
    return read_rules("firmwright.devices.soma_dory", SomaRules)


@dataclass(frozen=True)
class Question:
    """An unknown fact about the chip. ``about`` has kinds of layers, or is empty for all kinds."""

    question: str
    about: tuple[str, ...]


@dataclass(frozen=True)
class Questions:
    questions: tuple[Question, ...]


def list_open_questions(kinds: Collection[str]) -> tuple[str, ...]:
    """Return the open questions on the accelerators, which no public source answers."""
    listed = read_rules("firmwright.devices.soma_dory", Questions, "open_questions.yaml").questions
    return tuple(q.question for q in listed if not q.about or not {*q.about}.isdisjoint(kinds))


def check_operators(match: Match) -> tuple[RuleViolation, ...]:
    return find_violations(soma_rules().operators, operator_facts(match))


def check_layer(
    layer: AcceleratorLayer, accelerator: Mapping[str, Any]
) -> tuple[RuleViolation, ...]:
    return find_violations(soma_rules().layer, layer_facts(layer, accelerator))


def operator_facts(match: Match) -> dict[str, Any]:
    sums = match.sums
    shapes = [list(static_shape(i)) for i in sums.inputs]
    facts: dict[str, Any] = {
        "kind": match.kind,
        "input_dtypes": [dtype_of(i) for i in sums.inputs],
        "input_shape": shapes[0],
        "other_shape": shapes[-1],
        "input_axes": len(shapes[0]),
        "shift": read_scalar(match.shift),
        "shift_shown": describe_operand(match.shift),
        "clip": [to_whole_number(limit) for limit in match.clip_range],
        "output_dtype": dtype_of(match.result),
    }
    if match.kind is not LayerKind.ADD:
        facts |= weight_facts(match)
    if match.conversion is not None:
        facts |= conversion_facts(match, match.conversion)
    if match.kind not in (LayerKind.DENSE, LayerKind.ADD):
        attributes = sums.anchor.value.attrs
        facts |= {
            "data_layout": str(attributes.data_layout),
            "kernel_layout": str(attributes.kernel_layout),
            "dilation": [int(d) for d in attributes.dilation],
            "groups": int(attributes.groups),
            "in_channels": shapes[0][str(attributes.data_layout).index("C")],
            "out_channels": static_shape(sums.result)[str(attributes.out_layout).index("C")],
        }
    return facts


def weight_facts(match: Match) -> dict[str, Any]:
    sums = match.sums
    bias = read_channel_bias(sums.bias, static_shape(sums.result))
    return {
        "weights": "constant" if isinstance(sums.weights, Constant) else "computed",
        "weights_dtype": dtype_of(sums.weights),
        "weights_axes": len(static_shape(sums.weights)),
        "weights_range": describe_range(sums.weights),
        "sums_dtype": dtype_of(sums.anchor.var),
        "bias": "by channel" if bias is not None else describe_operand(sums.bias),
    }


def conversion_facts(match: Match, conversion: Conversion) -> dict[str, Any]:
    sums, low, high = match.sums, *conversion.input_range
    channels = static_shape(sums.result)
    factors = read_channel_bias(conversion.factors, channels)
    offsets = read_channel_bias(sums.bias, channels)
    largest = None
    if factors is not None and offsets is not None:
        ends = [factors.astype("int64") * code + offsets for code in ANALOG_CODES]
        largest = int(np.abs(ends).max())
    weights = constant_array(sums.weights) if isinstance(sums.weights, Constant) else np.zeros(1)
    step = conversion.step
    return {
        "weights_span": [weights.min(), weights.max()],
        "step": step if step is not None and step.is_integer() else None,
        "step_shown": "a tensor" if step is None else f"{step:g}",
        "codes": [to_whole_number(limit) for limit in conversion.codes],
        "factors": "by channel" if factors is not None else describe_operand(conversion.factors),
        "largest_number": largest,
        "input_range": [low, high],
        "input_bits": min(count_bits(low, high), count_bits(low + 64, high + 64)),
    }


def count_bits(low: int, high: int) -> int:
    """Return the number of bits for a range of unsigned numbers, or 8 if a number is negative."""
    return high.bit_length() if low >= 0 else 8


def describe_operand(operand: Expr) -> str:
    number = read_scalar(operand)
    if number is not None:
        return str(number)
    shape = list(static_shape(operand))
    kind = "constant" if isinstance(operand, Constant) else "tensor that the network computes"
    return f"a {kind}, {shape}"


def describe_range(weights: Expr) -> str:
    if not isinstance(weights, Constant):
        return "any values"
    array = constant_array(weights)
    return f"{array.min()} to {array.max()}"


def to_whole_number(limit: float) -> float:
    """Return a whole number as an integer, for the text of a message."""
    return int(limit) if limit == limit // 1 and abs(limit) < 2**53 else limit


def layer_facts(layer: AcceleratorLayer, accelerator: Mapping[str, Any]) -> dict[str, Any]:
    top, left, bottom, right = layer.padding
    height, width = layer.kernel
    return {
        "kind": layer.kind,
        "kernel_height": height,
        "kernel_width": width,
        "half_kernel_height": height // 2,
        "half_kernel_width": width // 2,
        "strides": list(layer.strides),
        "pad_top": top,
        "pad_left": left,
        "pad_bottom": bottom,
        "pad_right": right,
        "largest_sum": largest_sum(layer),
        "rows": layer.channels * height * width,
        "analog_rows": accelerator["analog_rows"],
        "relu": layer.relu,
        "relu_of_sums": accelerator["relu_of_sums"],
        "tiling": explain_no_tiling(layer, Accelerator.from_numbers(accelerator)) or "fits",
    }


def largest_sum(layer: AcceleratorLayer) -> int:
    """Return the largest possible magnitude of a sum for all inputs."""
    largest = -int(INT8_RANGE[0])
    if layer.weights is None or layer.bias is None:
        return 2 * largest
    by_output = np.abs(layer.weights.astype("int64")).reshape(layer.out_channels, -1).sum(1)
    return int((largest * by_output + np.abs(layer.bias.astype("int64"))).max())
