"""A concatenation of very many tensors becomes a tree of small ones."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.relax import operator_name, rewrite_calls

MAX_INPUTS = 32
"""Tensors: TVM nests one choice in another for each of them, and C compilers limit the nesting."""


def concat_in_trees(module: tvm.IRModule) -> tvm.IRModule:
    """Concatenate in groups of at most :data:`MAX_INPUTS`, then the groups, in the same order."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.concat" or not isinstance(call.args[0], relax.Tuple):
            return call
        parts = list(call.args[0].fields)
        if len(parts) <= MAX_INPUTS:
            return call
        axis = int(call.attrs.axis or 0)
        while len(parts) > MAX_INPUTS:
            groups = [parts[i : i + MAX_INPUTS] for i in range(0, len(parts), MAX_INPUTS)]
            parts = [builder.emit(relax.op.concat(group, axis)) for group in groups]
        return relax.op.concat(parts, axis)

    return rewrite_calls(module, rewrite)
