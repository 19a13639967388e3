"""Which networks and regions are quantized, and the facts about scales for rules."""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp
from typing import Any

import numpy as np

from firmwright.ir.nodes import Function, VarBinding
from firmwright.ir.operators import short_name
from firmwright.ir.relax import constant_array, dtype_of

GRID_OPERATORS = frozenset({"quantize", "dequantize"})


def is_quantized(bindings: Iterable[VarBinding]) -> bool:
    """Return whether operators quantize or dequantize: the scales are decided then."""
    return any(short_name(b.value) in GRID_OPERATORS for b in bindings)


def grid_facts(bindings: Iterable[VarBinding]) -> dict[str, Any]:
    """Return the facts for rules about a layer's scales and zero points, weights and biases
    included.

    ``grids`` says in words what a chip of one symmetric scale a tensor does not take.
    """
    calls = [b.value for b in bindings if short_name(b.value) in GRID_OPERATORS]
    scales = [constant_array(call.args[1]) for call in calls]
    zero_points = sorted({int(z) for call in calls for z in constant_array(call.args[2]).flat})
    by_channel = any(scale.size > 1 for scale in scales)
    odd = [float(s) for scale in scales for s in scale.flat if frexp(float(s))[0] != 0.5]
    told = ["a scale for each channel"] if by_channel else []
    told += [f"the zero point {z}" for z in zero_points if z]
    return {
        "symmetric_per_tensor": not told,
        "powers_of_two": not odd,
        "grids": told,
        "odd_scale": str(np.float32(odd[0])) if odd else "",
    }


def is_float(function: Function) -> bool:
    """Tell a region of floats, as TIDL supports it of a network that is not quantized."""
    return all(dtype_of(v) == "float32" for v in function.params)


def is_quantized_float(function: Function) -> bool:
    """Tell a region of floats that is quantized inside: what stands in for TIDL's own."""
    return is_float(function) and is_quantized(b for x in function.body.blocks for b in x.bindings)
