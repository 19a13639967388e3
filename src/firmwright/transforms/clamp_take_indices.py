"""An index out of range must not read outside a buffer: the importers' ``take`` trusts indices."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.relax import operator_name, rewrite_calls


def clamp_take_indices(module: tvm.IRModule) -> tvm.IRModule:
    """Clamp the indices of every ``relax.take``; on constant ones this costs nothing."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.take" or str(call.attrs.mode) != "fast":
            return call
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        return builder.normalize(relax.op.take(call.args[0], call.args[1], axis, "clip"))

    return rewrite_calls(module, rewrite)
