"""Finds the parts of tensors that are runs of adjacent elements, and the tensors that join them.

A part is such a run only along the outermost axis that is longer than 1.
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
    """Return the tensors that a concatenation stores one after the other, or []."""
    if operator_name(value) != "relax.concat" or not isinstance(value.args[0], relax.Tuple):
        return []
    shape = static_shape(value)
    axis = int(value.attrs.axis or 0) % len(shape)
    return list(value.args[0].fields) if prod(shape[:axis]) == 1 else []


def find_first_element(take: tvm.ir.Call) -> int | None:
    """Return the first element of the part that a constant index selects, or None."""
    data, index = take.args[:2]
    if not isinstance(index, Constant) or static_shape(index) or take.attrs.axis is None:
        return None
    shape = static_shape(data)
    axis, number = int(take.attrs.axis) % len(shape), int(constant_array(index).item())
    if prod(shape[:axis]) != 1 or not 0 <= number < shape[axis]:
        return None
    return number * prod(shape[axis + 1 :])
