"""Finds operators without code, which only select a part of a tensor or join tensors.

A part needs only a pointer. An operator may write its result directly into a joined tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from firmwright.ir.element_runs import find_first_element, keeps_order, list_parts
from firmwright.ir.nodes import Expr, Var, VarBinding
from firmwright.ir.relax import Constant, dtype_of, operator_name, read_variables
from firmwright.ir.tensors import ELEMENT_BYTES


def find_picks(bindings: Sequence[VarBinding], fixed: Collection[Var]) -> dict[Var, int]:
    """Return the variables that are a part of a tensor, and the byte offset of each part.

    ``fixed`` variables are neither parts nor tensors with parts.
    """
    return {
        b.var: first * ELEMENT_BYTES[dtype_of(b.var)]
        for b in bindings
        if operator_name(b.value) in ("relax.take", "relax.strided_slice")
        and isinstance(b.value.args[0], Var)
        and {b.var, b.value.args[0]}.isdisjoint(fixed)
        for first in [find_first_element(b.value)]
        if first is not None
    }


def find_joints(bindings: Sequence[VarBinding], fixed: Collection[Var]) -> set[Var]:
    """Return the variables that join results of operators, and the reshaped results in between.

    Each result is joined only once. ``fixed`` variables do not join and are not joined.
    """
    made = {b.var: b.value for b in bindings if not isinstance(b.value, Constant)}
    joined: set[Var] = set()
    joints: set[Var] = set()
    for binding in bindings:
        paths = [find_path(part, made) for part in list_parts(binding.value)]
        sources = {path[-1] for path in paths}
        fits = 1 < len(paths) == len(sources) and made.keys() >= sources
        if fits and binding.var not in fixed and sources.isdisjoint(joined.union(fixed)):
            joined |= sources
            joints.update([binding.var], *(path[:-1] for path in paths))
    return joints


def find_path(value: Expr, made: Mapping[Var, Expr]) -> list[Expr]:
    """Return a value and its sources through reshapes, up to the result of an operator."""
    path = [value]
    while keeps_order(made.get(path[-1])):
        path.append(read_variables(made[path[-1]])[0])
    return path
