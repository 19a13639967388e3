"""Replaces reads of joined tensors so that readers do not wait for other parts."""

from __future__ import annotations

from math import prod

import tvm
from tvm import relax

from firmwright.ir.element_runs import find_begin, find_first_element, keeps_order, list_parts
from firmwright.ir.relax import (
    definition,
    operator_name,
    read_variables,
    rewrite_each,
    static_shape,
)


@rewrite_each("relax.concat", "relax.strided_slice")
def read_parts(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Remove empty tensors from joins. Join only the parts that a slice of joined tensors reads.

    A recurrent layer of TensorFlow replaces one step of the result at a time. The layer joins the
    earlier steps, the new step, and the later steps.
    """
    if operator_name(call) == "relax.concat":
        return join_non_empty(builder, call)
    joined = definition(builder, call.args[0])
    if not list_fields(joined) or not prod(static_shape(call)):
        return call
    axis = int(joined.attrs.axis or 0) % len(static_shape(joined))
    begin = find_begin(call, axis)
    if begin is None:
        return call
    end = begin + static_shape(call)[axis]
    kept = []
    for part in list_joined(builder, call.args[0], axis):
        length = static_shape(part)[axis]
        first, last = max(begin, 0), min(end, length)
        if first < last:
            kept.append(cut_part(builder, part, axis, first, last))
        begin, end = begin - length, end - length
    return join(kept, axis)


def join_non_empty(builder: relax.BlockBuilder, concat: tvm.ir.Call) -> relax.Expr:
    parts, axis = list_fields(concat), int(concat.attrs.axis or 0) % len(static_shape(concat))
    kept = [part for part in parts if prod(static_shape(part))]
    if not kept or len(kept) == len(parts):
        return concat
    return join([leaf for part in kept for leaf in list_joined(builder, part, axis)], axis)


def cut_part(
    builder: relax.BlockBuilder, part: relax.Expr, axis: int, begin: int, end: int
) -> relax.Expr:
    if end - begin == static_shape(part)[axis]:
        return part
    return builder.emit(relax.op.strided_slice(part, [axis], [begin], [end]))


def list_joined(builder: relax.BlockBuilder, value: relax.Expr, axis: int) -> list[relax.Expr]:
    """Return the tensors that are joined along an axis, including the tensors of joined parts."""
    joined = definition(builder, value)
    fields = list_fields(joined)
    if not fields or int(joined.attrs.axis or 0) % len(static_shape(joined)) != axis:
        return [value]
    return [leaf for part in fields for leaf in list_joined(builder, part, axis)]


def list_fields(value: relax.Expr) -> list[relax.Expr]:
    """Return the operands of a concatenation, or [] for other operators."""
    if operator_name(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return []
    return [*value.args[0].fields]


def join(parts: list[relax.Expr], axis: int) -> relax.Expr:
    return parts[0] if len(parts) == 1 else relax.op.concat(parts, axis)


@rewrite_each("relax.take")
def take_part(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace an element of a concatenation by the joined part if the element is a whole part.

    For example, a classifier reads only the last step of a recurrent layer.
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
    """Return the part of a concatenation with ``elements`` elements from ``first`` on, or None."""
    for part in list_parts(definition(builder, go_back(builder, value))):
        size = prod(static_shape(part))
        if first < size:
            is_whole = first == 0 and size == elements
            return go_back(builder, part) if is_whole else find_part(builder, part, first, elements)
        first -= size
    return None


def go_back(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Return the earliest tensor that has a value's elements in their order, in any shape."""
    while keeps_order(definition(builder, value)):
        value = read_variables(definition(builder, value))[0]
    return value
