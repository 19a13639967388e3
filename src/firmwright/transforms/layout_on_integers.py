"""Between a dequantize and a quantize to the same grid, moving elements needs no floats."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.operators import PERMUTATIONS, relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    emit_with_name,
    operator_name,
    rewrite_calls,
)

SELECTING_OPERATORS = PERMUTATIONS | relax_names("strided_slice nn.max_pool2d")
"""Operators whose result elements are elements of their input (the grid's order is kept)."""


def keep_layout_on_integers(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite quantize(select(dequantize(x))) to select(x) where both grids are the same."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.quantize":
            return call
        chain: list[tuple[relax.Var, tvm.ir.Call]] = []
        source = definition(builder, call.args[0])
        reader = call
        while operator_name(source) in SELECTING_OPERATORS:
            chain.append((reader.args[0], source))
            reader, source = source, definition(builder, source.args[0])
        if (
            not chain
            or operator_name(source) != "relax.dequantize"
            or not has_same_quant_params(source, call)
        ):
            return call
        value = source.args[0]
        for variable, moved in reversed(chain):
            on_integers = tvm.ir.Call(moved.op, [value, *moved.args[1:]], moved.attrs)
            value = emit_with_name(builder, on_integers, str(variable.name))
        return value

    return rewrite_calls(module, rewrite)


def has_same_quant_params(dequantize: tvm.ir.Call, quantize: tvm.ir.Call) -> bool:
    """Tell whether both are per tensor, with one scale, zero point and integer type."""
    if dtype_of(dequantize.args[0]) != str(quantize.attrs.out_dtype):
        return False
    for before, after in zip(dequantize.args[1:], quantize.args[1:], strict=True):
        if not (isinstance(before, Constant) and isinstance(after, Constant)):
            return False
        ours, theirs = constant_array(before), constant_array(after)
        if ours.size != 1 or theirs.size != 1 or np.float64(ours.item()) != theirs.item():
            return False
    return True
