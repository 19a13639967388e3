"""Finds quantized networks and regions, and the facts about scales that rules check."""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp
from typing import Any

import numpy as np

from firmwright.ir.nodes import Function, VarBinding
from firmwright.ir.operators import short_name
from firmwright.ir.relax import constant_array, dtype_of

QUANTIZATION_OPERATORS = frozenset({"quantize", "dequantize"})


def is_quantized(bindings: Iterable[VarBinding]) -> bool:
    """Return whether any operator quantizes or dequantizes, which fixes the scales."""
    return any(short_name(b.value) in QUANTIZATION_OPERATORS for b in bindings)


def find_quantization_facts(bindings: Iterable[VarBinding]) -> dict[str, Any]:
    """Return the facts about a layer's scales and zero points, including weights and biases.

    Some chips support only one symmetric scale per tensor. ``parameters`` lists the other
    quantization parameters.
    """
    calls = [b.value for b in bindings if short_name(b.value) in QUANTIZATION_OPERATORS]
    scales = [constant_array(call.args[1]) for call in calls]
    zero_points = sorted({int(z) for call in calls for z in constant_array(call.args[2]).flat})
    by_channel = any(scale.size > 1 for scale in scales)
    odd = [float(s) for scale in scales for s in scale.flat if frexp(float(s))[0] != 0.5]
    unsupported = ["a scale for each channel"] if by_channel else []
    unsupported += [f"the zero point {z}" for z in zero_points if z]
    return {
        "symmetric_per_tensor": not unsupported,
        "powers_of_two": not odd,
        "parameters": unsupported,
        "odd_scale": str(np.float32(odd[0])) if odd else "",
    }


def is_float(function: Function) -> bool:
    """Return whether all inputs of a region are float32."""
    return all(dtype_of(v) == "float32" for v in function.params)


def is_quantized_float(function: Function) -> bool:
    """Return whether a float region contains quantized operators, as a stand-in for TIDL does."""
    return is_float(function) and is_quantized(b for x in function.body.blocks for b in x.bindings)
