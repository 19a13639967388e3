"""Finds operators that move or compare integers.

TFLite requires equal quantization parameters of the operands and the result of these operators. A
module contains parameters only at dequantize and quantize operators. Therefore the parameters are
read from the neighbors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax

from firmwright.device import (
    Constant,
    StoredTensor,
    constant_array,
    count_readers,
    dtype_of,
    main_bindings,
    short_name,
    static_shape,
)
from firmwright_ethos_u.requantized import find_stored

MOVES = (
    *("reshape", "expand_dims", "squeeze", "permute_dims", "strided_slice"),
    *("concat", "pad", "take"),
)
"""The operators that only move values."""

INTEGER = (*MOVES, "max_pool2d", "minimum", "maximum", "clip")
DTYPES = ("int8", "int16")


class IntegerOperator(NamedTuple):
    """An operator on integers with tensors and bound variables."""

    call: Any
    operands: tuple[StoredTensor, ...]
    result: StoredTensor
    variables: tuple[Any, ...]


def find_integer_operators(module: tvm.IRModule) -> Iterator[IntegerOperator]:
    """Yield the operators of `main`.

    Two `take` operators that enlarge an image are one operator.
    """
    stored = spread_parameters(module)
    uses = count_readers(module)
    bound = {b.var: b for b in main_bindings(module) if uses[b.var] == 1}
    for binding in main_bindings(module):
        variables: tuple[Any, ...] = (binding.var,)
        values = read_operands(binding.value)
        if short_name(binding.value) == "take":
            first = bound.get(values[0]) if values else None
            if first is None or not enlarges(first.value, 1) or not enlarges(binding.value, 2):
                continue
            variables, values = (first.var, binding.var), read_operands(first.value)
        if values:
            result = stored[binding.var]
            operands = tuple(stored.get(v, replace(result, value=v)) for v in values)
            yield IntegerOperator(binding.value, operands, result, variables)


def read_operands(call: Any) -> list[Any]:
    """Return the tensors that an operator on integers reads. Return [] for other operators."""
    if short_name(call) not in INTEGER or getattr(call.ty, "dtype", None) not in DTYPES:
        return []
    tensors = [*call.args[0].fields] if isinstance(call.args[0], relax.Tuple) else [call.args[0]]
    if short_name(call) in ("minimum", "maximum"):
        tensors.append(call.args[1])
    return tensors


def enlarges(call: Any, axis: int) -> bool:
    """Return whether a `take` repeats the elements of an axis, as in nearest-neighbor resizing."""
    if short_name(call) != "take" or not isinstance(call.args[1], Constant):
        return False
    if call.attrs.axis is None or int(call.attrs.axis) != axis:
        return False
    found, length = constant_array(call.args[1]), static_shape(call.args[0])[axis]
    return bool(np.array_equal(found, np.arange(found.size) * length // found.size))


def spread_parameters(module: tvm.IRModule) -> Mapping[Any, StoredTensor]:
    """Return the integer tensors of `main` with their parameters.

    The neighbors of operators on integers have the same parameters. The parameters of other tensors
    are irrelevant. The scale of other tensors is 1, and the zero point is the value of a pad, or 0.
    """
    stored = find_stored(module)
    links = [(b.var, read_operands(b.value), b.value) for b in main_bindings(module)]
    spread(stored, links)
    for variable, values, call in sorted(links, key=lambda link: short_name(link[2]) != "pad"):
        if values and variable not in stored:
            zero = int(call.attrs.pad_value) if short_name(call) == "pad" else 0
            stored[variable] = StoredTensor(
                variable, dtype_of(variable), np.array(1.0), np.array(zero), 0
            )
            spread(stored, links)
    return stored


def spread(stored: dict[Any, StoredTensor], links: list[tuple[Any, list[Any], Any]]) -> None:
    """Copy the parameters between the operands and the results, first forward, then backward."""
    for order in (links, reversed(links)):
        for variable, values, _ in order:
            tensors = [variable, *values] if values else []
            known = next((stored[tensor] for tensor in tensors if tensor in stored), None)
            if known is not None:
                for tensor in tensors:
                    stored.setdefault(tensor, replace(known, value=tensor))
