"""Finds the inputs of a region whose memory the region's output may use.

Sharing memory is safe if the loops read each input element before they overwrite the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm_ffi import structural_equal, structural_walk

from firmwright.codegen.c_source import flatten_prim_func
from firmwright.ir.kernels import Parameter

BYTES = frozenset({"int8", "uint8"})
"""C may read and write the same bytes with each of these types."""

POINTER_OPERATIONS = frozenset(
    f"tirx.{name}"
    for name in ("address_of", "tvm_access_ptr", "tvm_call_packed", "tvm_call_cpacked")
)
"""Operations that pass a buffer to unknown code, which may read and write any element."""


def find_in_place(
    function: tirx.PrimFunc, inputs: Sequence[Parameter], outputs: Sequence[Parameter], between: int
) -> tuple[str, ...]:
    """Return the names of the inputs whose memory the output of a scheduled function may use.

    The parameters are the inputs, ``between`` other parameters, and the outputs. The proof has two
    parts. First, one statement writes the output and runs once per element. All elements are
    written, so each element is written once. Second, no other statement reads the input, and the
    writing statement reads the input only at the position that it writes.
    """
    alike = [p.name for p in inputs if len(outputs) == 1 and is_alike(p, outputs[0])]
    if not alike:
        return ()
    flat = flatten_prim_func(function)
    shown = {d.buffer: d.data.args[0] for d in find_nodes(flat.body, tirx.DeclBuffer)}
    output = flat.params[len(inputs) + between]
    stores = [s for s in find_nodes(flat.body, tirx.BufferStore) if shown.get(s.buffer) == output]
    if len(stores) != 1 or count_turns(flat.body, stores[0]) != outputs[0].elements:
        return ()
    (store,) = stores
    names = []
    for parameter, buffer in zip(inputs, flat.params, strict=False):
        anywhere, stored = (
            [x for x in find_nodes(tree, tvm.ir.TensorLoad) if shown.get(x.source) == buffer]
            for tree in (flat.body, store.value)
        )
        in_step = all(structural_equal(load.indices, store.indices) for load in anywhere)
        if parameter.name in alike and in_step and len(stored) == len(anywhere):
            names.append(parameter.name)
    return tuple(names)


def count_turns(body: tirx.Stmt, store: tirx.BufferStore) -> int | None:
    """Return the number of runs of a statement, or None if the number is unknown.

    Pointer operations and while loops make the number unknown.
    """
    calls = find_nodes(body, tvm.ir.Call)
    names = {call.op.name for call in calls if isinstance(call.op, tvm.ir.Op)}
    if names & POINTER_OPERATIONS or find_nodes(body, tirx.While):
        return None
    loops = [x for x in find_nodes(body, tirx.For) if store in find_nodes(x.body, type(store))]
    known = all(isinstance(loop.extent, tirx.IntImm) for loop in loops)
    return prod(int(loop.extent) for loop in loops) if known else None


def is_alike(one: Parameter, other: Parameter) -> bool:
    """Return whether two parameters may share memory: equal sizes and compatible C types."""
    same = one.dtype == other.dtype or {one.dtype, other.dtype} <= BYTES
    return same and one.elements == other.elements


def find_nodes(tree: tirx.Stmt | tirx.Expr, kind: type[Any]) -> list[Any]:
    nodes: list[Any] = []
    structural_walk(tree, (kind, nodes.append))
    return nodes
