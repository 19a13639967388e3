"""Copies each dequantize to its readers, so that dequantized activations are never stored."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm_ffi import structural_map

from firmwright.ir.relax import main_bindings, operator_name, rewrite_bindings


def duplicate_dequantize(module: tvm.IRModule) -> tvm.IRModule:
    """Copy every ``relax.dequantize`` to each reader, and remove the original."""
    dequantized = {
        b.var: b.value
        for b in main_bindings(module)
        if operator_name(b.value) == "relax.dequantize"
    }

    def give_copy(binding: relax.VarBinding) -> list[relax.VarBinding]:
        copies = []

        def copy(variable: relax.Var) -> relax.Var:
            if variable not in dequantized:
                return variable
            # The copy has no name of the model, because a layer has the name of its computing
            # operator.
            copies.append(
                relax.VarBinding(type(variable)("lv", variable.ty), dequantized[variable])
            )
            return copies[-1].var

        value = structural_map(binding.value, (relax.Var, copy))
        return [*copies, relax.VarBinding(binding.var, value) if copies else binding]

    return rewrite_bindings(module, give_copy)
