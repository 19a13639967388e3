"""Prints TIR as plain C: pointer parameters and loops, without TVM's runtime.

The TVM passes turn a function into loops over arrays of one axis. Large temporaries become
parameters, and temporaries of one element become variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.s_tir import transform as schedulable
from tvm.tirx import transform as lowered
from tvm_ffi import structural_map

from firmwright.codegen.array_declarations import NOTHING, drop_unread, find_scalars, place_scalars
from firmwright.codegen.c_integers import keep_types
from firmwright.codegen.c_statements import Statements
from firmwright.codegen.data_indices import bound_data_indices, remove_marks
from firmwright.codegen.index_divisions import protect_index_divisions
from firmwright.ir.kernels import LibraryFunction
from firmwright.ir.tensors import ELEMENT_BYTES

MAX_LOCAL_BYTES = 64
"""The maximum bytes of a temporary on the stack.

Larger temporaries use scratch memory in the arena.
"""

FLATTENING_PASSES = (
    protect_index_divisions,
    schedulable.CanonicalizeLoop(),
    schedulable.LowerInitBlock(),
    schedulable.PlanAndUpdateBufferAllocationLocation(),
    schedulable.ConvertBlocksToOpaque(),
    schedulable.CompactBufferAllocation(),
    schedulable.LowerMatchBuffer(),
    schedulable.LowerOpaqueBlock(),
    protect_index_divisions,  # again, because loops replace the variables of blocks
    lowered.FlattenBuffer(),
)
"""The passes that turn blocks into plain loops over arrays of one axis."""

PREPARING_PASSES = (
    bound_data_indices,
    remove_marks,
    *FLATTENING_PASSES,
    lowered.NarrowDataType(32),
)
"""The passes that turn a scheduled function into plain loops with indices of 32 bits."""

LOWERING_PASSES = (
    schedulable.LoopPartition(),
    lowered.VectorizeLoop(False),
    drop_unread,  # before arrays share memory
    lowered.StorageRewrite(),
    lowered.UnrollLoop(),
    schedulable.StmtSimplify(),
    lowered.RemoveNoOp(),
    schedulable.RewriteUnsafeSelect(),
    lowered.CommonSubexprElim(),
    lowered.LowerIntrin(),
    keep_types,
    drop_unread,
)
"""The passes that turn plain loops into statements and expressions that C has."""


@dataclass(frozen=True)
class CFunction:
    """The C body of a function, and the names that it uses.

    ``scratch`` has (name, dtype, elements) of each temporary that the caller provides.
    ``functions`` are the called functions of the C library and of the project's headers, and the
    macros for infinity and NaN. ``library_functions`` are the called functions of the user's
    libraries. ``unused`` are the unused parameters.
    """

    body: str
    unused: tuple[str, ...]
    scratch: tuple[tuple[str, str, int], ...]
    functions: tuple[str, ...]
    library_functions: tuple[LibraryFunction, ...]


def print_c(
    function: tirx.PrimFunc,
    names: Sequence[str],
    change: Callable[[tirx.PrimFunc], tirx.PrimFunc] = lambda plain: plain,
) -> CFunction:
    """Lower a scheduled PrimFunc to C. ``names`` are the names of its buffer parameters.

    ``change`` rewrites the plain loops over arrays of one axis.
    """
    target = tvm.target.Target("c")
    attributes = {"global_symbol": "kernel", "target": target, "tirx.noalias": True}
    module = tvm.IRModule({"kernel": function.with_attr(attributes)})
    with tvm.transform.PassContext(opt_level=3):
        for step in PREPARING_PASSES:
            module = step(module)
        module.update_func(module.get_global_var("kernel"), change(module["kernel"]))
        for step in LOWERING_PASSES:
            module = step(module)
    function = module["kernel"]
    body, scratch = lift_temporaries(drop_pragmas(function.body))
    scalars = find_scalars(body)
    arrays = dict(zip(function.params, names, strict=True))
    arrays |= {array: name for array, (name, _, _) in scratch.items()}
    printed = Statements(place_scalars(body, scalars), arrays, scalars)
    expressions = printed.expressions
    return CFunction(
        body=printed.text,
        unused=tuple(name for name in names if name not in expressions.used),
        scratch=tuple(scratch.values()),
        functions=tuple(sorted(expressions.functions)),
        library_functions=tuple(dict.fromkeys(c.signature for c in printed.library_calls)),
    )


def flatten_prim_func(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return plain loops over arrays of one axis for another code generator."""
    module = tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")})
    for step in (bound_data_indices, *FLATTENING_PASSES):
        module = step(module)
    return module["kernel"]


def drop_pragmas(body: tirx.Stmt) -> tirx.Stmt:
    """Remove pragmas, because loops in their original order satisfy all pragmas."""

    def drop(hint: tirx.AttrStmt) -> tirx.Stmt:
        return hint.body if hint.attr_key.startswith("pragma_") else hint

    return structural_map(body, (tirx.AttrStmt, drop))


def lift_temporaries(body: tirx.Stmt) -> tuple[tirx.Stmt, dict[tirx.Var, tuple[str, str, int]]]:
    """Remove the large local arrays. Return their names, dtypes and elements for the caller."""
    scratch: dict[tirx.Var, tuple[str, str, int]] = {}

    def lift(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        array = allocation.buffer
        elements = math.prod(int(d) for d in array.shape)
        dtype = str(array.dtype)
        if elements * ELEMENT_BYTES[dtype] <= MAX_LOCAL_BYTES:
            return allocation
        scratch.setdefault(array, (f"scratch_{len(scratch)}", dtype, elements))
        return NOTHING

    return structural_map(body, (tirx.AllocBuffer, lift)), scratch
