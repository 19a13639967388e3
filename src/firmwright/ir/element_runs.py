"""Finds the parts of tensors that are runs of adjacent elements, and the tensors that join them.

A part can be a run only along the outermost axis that is longer than 1.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm import relax

from firmwright.ir.operators import RESHAPES
from firmwright.ir.relax import Constant, constant_array, operator_name, static_shape


def keeps_order(value: relax.Expr) -> bool:
    """Return whether an operator keeps all elements in their order and adds no elements."""
    name = operator_name(value)
    if name == "relax.concat":
        return isinstance(value.args[0], relax.Tuple) and len(value.args[0].fields) == 1
    if name == "relax.permute_dims":
        shape = static_shape(value.args[0])
        axes = value.attrs.axes or range(len(shape))[::-1]
        long = [int(axis) for axis in axes if shape[int(axis)] > 1]
        return long == sorted(long)
    return name in RESHAPES


def list_parts(value: relax.Expr) -> list[relax.Expr]:
    """Return the tensors that a concatenation stores in sequence, or [] for other operators."""
    if operator_name(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return []
    shape = static_shape(value)
    axis = int(value.attrs.axis or 0) % len(shape)
    return list(value.args[0].fields) if prod(shape[:axis]) == 1 else []


def find_first_element(value: relax.Expr) -> int | None:
    """Return the first element of the part that a constant index or a slice selects.

    None if the elements are not adjacent, or for other operators.
    """
    if operator_name(value) == "relax.strided_slice":
        return find_first_of_slice(value)
    if operator_name(value) != "relax.take":
        return None
    data, index = value.args[:2]
    if not isinstance(index, Constant) or static_shape(index) or value.attrs.axis is None:
        return None
    shape = static_shape(data)
    axis, number = int(value.attrs.axis) % len(shape), int(constant_array(index).item())
    if prod(shape[:axis]) != 1 or not 0 <= number < shape[axis]:
        return None
    return number * prod(shape[axis + 1 :])


def find_first_of_slice(call: tvm.ir.Call) -> int | None:
    """Return the first element of a slice, or None if the slice's elements are not adjacent."""
    shape = static_shape(call.args[0])
    axis = next((i for i, length in enumerate(shape) if length > 1), 0)
    begin = find_begin(call, axis) if prod(static_shape(call)) else None
    return None if begin is None else begin * prod(shape[axis + 1 :])


def find_begin(call: tvm.ir.Call, axis: int) -> int | None:
    """Return the first index of a slice that cuts only ``axis`` with a step of 1, or None."""
    before, after = static_shape(call.args[0]), static_shape(call)
    steps = [int(step.value) for step in call.args[4].fields] if len(call.args) > 4 else []
    cut = [i for i, lengths in enumerate(zip(before, after, strict=True)) if len({*lengths}) > 1]
    if cut != [axis] or any(step != 1 for step in steps):
        return None
    axes = [int(each.value) % len(before) for each in call.args[1].fields]
    begin = int(call.args[2].fields[axes.index(axis)].value)
    return max(begin + before[axis], 0) if begin < 0 else begin
