"""Replaces reads of elements of joined tensors, so that readers do not wait for other parts."""

from __future__ import annotations

from math import prod

import tvm
from tvm import relax

from firmwright.ir.element_runs import find_first_element, keeps_order, list_parts
from firmwright.ir.relax import definition, read_variables, rewrite_each, static_shape


@rewrite_each("relax.take")
def take_part(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace an element of a concatenation by the part that was joined, if it is a whole part.

    For example, a classifier that reads a recurrent layer's last step then reads only that step.
    """
    first = find_first_element(call)
    if first is None:
        return call
    part = find_part(builder, call.args[0], first, prod(static_shape(call)))
    if part is None:
        return call
    return part if static_shape(part) == static_shape(call) else reshape_like(part, call)


def reshape_like(value: relax.Expr, call: tvm.ir.Call) -> relax.Expr:
    return relax.op.reshape(value, static_shape(call))


def find_part(
    builder: relax.BlockBuilder, value: relax.Expr, first: int, elements: int
) -> relax.Expr | None:
    """Return the part of a concatenation with ``elements`` from ``first`` on, else None."""
    for part in list_parts(definition(builder, go_back(builder, value))):
        size = prod(static_shape(part))
        if first < size:
            is_whole = first == 0 and size == elements
            return go_back(builder, part) if is_whole else find_part(builder, part, first, elements)
        first -= size
    return None


def go_back(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Return the earliest tensor that has the elements of a value in their order, in any shape."""
    while keeps_order(definition(builder, value)):
        value = read_variables(definition(builder, value))[0]
    return value
