"""A dequantized activation never lives in memory: each consumer gets a dequantize of its own."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from firmwright.ir.relax import main_bindings, operator_name, replace_main


def duplicate_dequantize(module: tvm.IRModule) -> tvm.IRModule:
    """Copy every ``relax.dequantize`` to each operator that reads it; drop the original."""
    dequantized = {
        b.var: b.value
        for b in main_bindings(module)
        if operator_name(b.value) == "relax.dequantize"
    }

    @mutator
    class Rewriter(PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: tvm.ir.Call) -> relax.Expr:
            arguments = [self.copy_dequantize(a) for a in call.args]
            return tvm.ir.Call(call.op, arguments, call.attrs, call.ty_args, call.span)

        def copy_dequantize(self, argument: relax.Expr) -> relax.Expr:
            if isinstance(argument, relax.Tuple):
                return relax.Tuple([self.copy_dequantize(f) for f in argument.fields])
            if argument not in dequantized:
                return self.visit_expr(argument)
            return self.builder_.emit(self.visit_expr(dequantized[argument]))

    return replace_main(module, Rewriter(module).visit_expr(module["main"]))
