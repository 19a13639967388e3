"""Finds hard swishes. TFLite's HARD_SWISH is `x * clip(x + 3, 0, 6) / 6` in a module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tvm

from firmwright.device import Constant, constant_array, count_readers, main_bindings, short_name
from firmwright_ethos_u.requantized import Requantized, describe


def find_hard_swishes(module: tvm.IRModule) -> Iterator[Requantized]:
    """Yield the hard swishes of `main`. The call of each result is its division."""
    uses = count_readers(module)
    bindings = main_bindings(module)
    bound = {b.var: b.value for b in bindings if uses[b.var] == 1}
    order = {b.var: number for number, b in enumerate(bindings)}
    for binding in bindings:
        if short_name(binding.value) == "quantize":
            variables = follow(binding.value.args[0], bound)
            sources = [bound[v] for v in variables if short_name(bound[v]) == "dequantize"]
            if len(sources) == 2 and sources[0].args[0] == sources[1].args[0]:
                source = describe(sources[0], sources[0].args[0])
                result = describe(binding.value, binding.var)
                ordered = sorted([*variables, binding.var], key=order.__getitem__)
                yield Requantized(bound[variables[0]], (source,), result, tuple(ordered))


def follow(divided: Any, bound: Mapping[Any, Any]) -> list[Any]:
    """Return the variables of a hard swish from its division to both dequantize operators.

    Return [] if the division is not part of a hard swish.
    """
    division = bound.get(divided)
    product = read_constant_operation(division, "divide", 6, bound)
    if product is None or short_name(bound[product]) != "multiply":
        return []
    factor, clipped = bound[product].args
    if short_name(bound.get(factor)) == "clip":
        factor, clipped = clipped, factor
    clip: Any = bound.get(clipped)
    if short_name(clip) != "clip" or [float(b.value) for b in clip.args[1:]] != [0, 6]:
        return []
    summed = clip.args[0]
    source = read_constant_operation(bound.get(summed), "add", 3, bound)
    if source is None or factor not in bound:
        return []
    return [divided, product, clipped, summed, source, factor]


def read_constant_operation(
    call: Any, kind: str, value: float, bound: Mapping[Any, Any]
) -> Any | None:
    """Return the first operand of an operation if the second operand is a constant ``value``.

    Return None for other operations.
    """
    if short_name(call) != kind or call.args[0] not in bound:
        return None
    constant = call.args[1]
    fits = isinstance(constant, Constant) and np.all(constant_array(constant) == value)
    return call.args[0] if fits else None
