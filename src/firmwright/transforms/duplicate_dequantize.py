"""A dequantized activation never lives in memory: each consumer gets a dequantize of its own."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm_ffi import structural_map

from firmwright.ir.relax import main_bindings, operator_name, rewrite_bindings


def duplicate_dequantize(module: tvm.IRModule) -> tvm.IRModule:
    """Copy every ``relax.dequantize`` to each operator that reads it; drop the original."""
    dequantized = {
        b.var: b.value
        for b in main_bindings(module)
        if operator_name(b.value) == "relax.dequantize"
    }

    def give_own(binding: relax.VarBinding) -> list[relax.VarBinding]:
        own = []

        def copy(variable: relax.Var) -> relax.Var:
            if variable not in dequantized:
                return variable
            # Without the model's name: a layer is called by what computes it.
            own.append(relax.VarBinding(type(variable)("lv", variable.ty), dequantized[variable]))
            return own[-1].var

        value = structural_map(binding.value, (relax.Var, copy))
        return [*own, relax.VarBinding(binding.var, value) if own else binding]

    return rewrite_bindings(module, give_own)
