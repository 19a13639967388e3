"""Explains why layers of whole numbers stay in float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from firmwright.ir.nodes import Call, IRModule, Var, VarBinding
from firmwright.ir.relax import main_bindings, operator_name, read_variables
from firmwright.ir.tensors import is_source_name
from firmwright.transforms.integers.elementwise_functions import (
    Array,
    are_whole,
    is_float,
    read_constant,
)
from firmwright.transforms.integers.ranges import (
    EXACT,
    SUMS,
    Range,
    find_ranges,
    largest_partial_sum,
)
from firmwright.transforms.integers.whole_number_layers import choose_type


def explain_floats(module: IRModule) -> list[tuple[str, str]]:
    """Return the layers with whole weights that are computed in floats, and the reasons.

    Layers whose weights are only -1, 0 and 1 are ignored, because these weights do not indicate a
    graph of integers.
    """
    bindings = main_bindings(module)
    values = {b.var: b.value for b in bindings}
    weights = {}
    for binding in bindings:
        if operator_name(binding.value) in SUMS and is_float(binding.value):
            constant = read_constant(binding.value.args[1], values)
            if constant is not None and are_whole(constant) and np.abs(constant).max() > 1:
                weights[binding.var] = constant
    if not weights:
        return []
    ranges = find_ranges(list(module["main"].params), bindings)
    return [
        (name_layer(v, bindings), explain_layer(values[v], ranges, numbers))
        for v, numbers in weights.items()
    ]


def name_layer(variable: Var, bindings: list[VarBinding]) -> str:
    """Return a layer's name in the model: the name of its bias addition, if there is one."""
    readers = [b.var for b in bindings if variable in read_variables(b.value)]
    names = [str(v.name) for v in (variable, *readers)]
    return next((name for name in names if is_source_name(name)), names[0])


def explain_layer(call: Call, ranges: Mapping[Var, Range], weights: Array) -> str:
    data = ranges.get(call.args[0])
    if data is None or not np.isfinite(data.magnitude):
        return (
            "its input may be any number, because the model does not clip it; if the network has "
            "an input of whole numbers, state them: `inputs: {its name: {integers: [0, 255]}}`"
        )
    if not data.is_whole:
        return "its input is clipped, but not rounded to whole numbers"
    if choose_type(data) is None:
        low, high = int(data.low.min()), int(data.high.max())
        return f"its input is from {low:,} to {high:,}, which does not fit 8 bits"
    if np.abs(weights + 0.5).max() > 128:
        low, high = int(weights.min()), int(weights.max())
        return f"its weights are from {low:,} to {high:,}, which does not fit int8"
    largest = largest_partial_sum(call, data, weights)
    return (
        f"its sums can reach {int(largest):,}, and float32 adds whole numbers exactly only below "
        f"{int(EXACT):,}"
    )
