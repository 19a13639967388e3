"""Binds one variable to each result of an operator, and replaces splits with slices."""

from __future__ import annotations

import itertools

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from firmwright.ir.relax import (
    definition,
    main_bindings,
    operator_name,
    replace_main,
    rewrite_each,
    static_shape,
)


@rewrite_each("relax.split")
def split_to_slices(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
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


def separate_results(module: tvm.IRModule) -> tvm.IRModule:
    """Bind each result of an operator with several results to a separate variable.

    A result without readers has no variable. Afterwards, no other operator reads the operator's
    tuple. Names do not change.
    """
    names = {
        (b.value.tuple_value, int(b.value.index)): str(b.var.name)
        for b in main_bindings(module)
        if isinstance(b.value, relax.TupleGetItem)
    }

    @mutator
    class Separator(PyExprMutator):  # type: ignore[misc]
        def visit_var_binding_(self, binding: relax.VarBinding) -> None:
            if not (operator_name(binding.value) and isinstance(binding.value.ty, relax.TupleType)):
                super().visit_var_binding_(binding)
                return
            value = self.visit_expr(binding.value)
            whole = self.builder_.emit(value, name_hint=str(binding.var.name))
            items = [
                self.builder_.emit(relax.TupleGetItem(whole, i), names.get((binding.var, i), "lv"))
                for i in range(len(value.ty.fields))
            ]
            inner = isinstance(binding.var, relax.DataflowVar)
            emit = self.builder_.emit if inner else self.builder_.emit_output
            self.set_var_remap(binding.var, emit(relax.Tuple(items)))

        def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
            item = self.visit_expr_post_order(item)
            whole = definition(self.builder_, item.tuple_value)
            return whole.fields[item.index] if isinstance(whole, relax.Tuple) else item

    return replace_main(module, Separator(module).visit_expr(module["main"]))


MAX_INPUTS = 32
"""The maximum number of tensors in a concatenation. TVM nests one choice per tensor, and C
compilers limit the nesting.
"""


@rewrite_each("relax.concat")
def concat_in_trees(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Concatenate groups of at most :data:`MAX_INPUTS` tensors, then concatenate the groups."""
    if not isinstance(call.args[0], relax.Tuple):
        return call
    parts = list(call.args[0].fields)
    if len(parts) <= MAX_INPUTS:
        return call
    axis = int(call.attrs.axis or 0)
    while len(parts) > MAX_INPUTS:
        groups = [parts[i : i + MAX_INPUTS] for i in range(0, len(parts), MAX_INPUTS)]
        parts = [builder.emit(relax.op.concat(group, axis)) for group in groups]
    return relax.op.concat(parts, axis)
