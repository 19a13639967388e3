"""One variable for each result of an operator; split becomes slices."""

from __future__ import annotations

import itertools

import tvm
from tvm import relax

from firmwright.transforms.rewriting import operator_name, rewrite_calls, static_shape


def split_to_slices(module: tvm.IRModule) -> tvm.IRModule:
    """Replace ``relax.split`` by one ``relax.strided_slice`` for each part."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.split":
            return call
        data, axis = call.args[0], int(call.attrs.axis)
        length = static_shape(data)[axis]
        parts = call.attrs.indices_or_sections
        if isinstance(parts, tvm.tirx.IntImm):
            step = -(-length // int(parts))
            inner = list(range(step, length, step))
        else:
            inner = [int(i) for i in parts]
        bounds = [0, *inner, length]
        slices = [
            builder.emit(relax.op.strided_slice(data, [axis], [begin], [end]))
            for begin, end in itertools.pairwise(bounds)
        ]
        return relax.Tuple(slices)

    return rewrite_calls(module, rewrite)


def separate_results(module: tvm.IRModule) -> tvm.IRModule:
    """Bind each result of an operator that has several to a variable of its own.

    Results that nothing reads get none. Nothing else names the operator's tuple afterwards.
    """

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if not isinstance(call.ty, relax.TupleType):
            return call
        results = builder.emit(call)
        items = [relax.TupleGetItem(results, i) for i in range(len(call.ty.fields))]
        return relax.Tuple([builder.emit(item) for item in items])

    return rewrite_calls(module, rewrite)
