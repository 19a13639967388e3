"""Finds the integer tensors of a module with their parameters, and changes of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
from tvm import relax

from firmwright.device import (
    StoredTensor,
    count_readers,
    describe_stored,
    dtype_of,
    main_bindings,
    short_name,
)


class Requantized(NamedTuple):
    """A quantize operator of dequantized values, its tensors, and the variables of both."""

    call: Any
    operands: tuple[StoredTensor, ...]
    result: StoredTensor
    variables: tuple[Any, ...]


def find_stored(module: tvm.IRModule) -> dict[Any, StoredTensor]:
    """Return the tensors of `main` that are quantized or dequantized, with their parameters."""
    stored: dict[Any, StoredTensor] = {}
    for binding in main_bindings(module):
        call, kind = binding.value, short_name(binding.value)
        if kind == "dequantize" and isinstance(call.args[0], relax.Var):
            stored.setdefault(call.args[0], describe(call, call.args[0]))
        elif kind == "quantize":
            stored[binding.var] = describe(call, binding.var)
    return stored


def describe(call: Any, tensor: Any) -> StoredTensor:
    """Return the integer tensor of a quantize or dequantize operator."""
    return describe_stored(call, tensor, dtype_of(tensor))


def find_requantized(module: tvm.IRModule) -> Iterator[Requantized]:
    """Yield each quantize of `main` whose operand is a dequantize with one reader."""
    uses = count_readers(module)
    bindings = main_bindings(module)
    dequantized = {
        b.var: b.value for b in bindings if short_name(b.value) == "dequantize" and uses[b.var] == 1
    }
    for binding in bindings:
        call = binding.value
        if short_name(call) == "quantize" and call.args[0] in dequantized:
            first = dequantized[call.args[0]]
            source, result = describe(first, first.args[0]), describe(call, binding.var)
            yield Requantized(call, (source,), result, (call.args[0], binding.var))
