"""The quantization parameters of the tensors that a region reads and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from firmwright.ir.operators import LAYOUT
from firmwright.ir.quant_params import QuantParams, read_quant_params
from firmwright.ir.relax import main_bindings, operator_name, read_variables

FLOAT = QuantParams("float32", 1.0, 0)
"""Of a tensor that is not quantized: a number stands for itself."""


def boundary_quant_params(function: relax.Function) -> list[QuantParams]:
    """Return the parameters of a region's inputs, then of its outputs.

    An input has those of the dequantize that reads it, an output those of the quantize that makes
    it, also where elements are moved in between.
    """
    bindings = bindings_of(function)
    makers = {b.var: b.value for b in bindings}
    return [
        *(find_input_params(v, bindings) for v in function.params),
        *(find_output_params(v, makers) for v in function.body.body.fields),
    ]


def bindings_of(function: relax.Function) -> list[relax.VarBinding]:
    return main_bindings(tvm.IRModule({"main": function}))


def find_input_params(tensor: relax.Var, bindings: Sequence[relax.VarBinding]) -> QuantParams:
    """Return the parameters of the first dequantize that reads a tensor."""
    same = {tensor}
    for binding in bindings:
        if same.isdisjoint(read_variables(binding.value)):
            continue
        name = operator_name(binding.value)
        if name == "relax.dequantize":
            return read_quant_params(binding.value)
        if name in LAYOUT:
            same.add(binding.var)
    return FLOAT


def find_output_params(tensor: relax.Var, makers: Mapping[relax.Var, relax.Expr]) -> QuantParams:
    """Return the parameters of the quantize that a tensor comes from."""
    value = makers.get(tensor)
    while operator_name(value) in LAYOUT:
        value = makers.get(read_variables(value)[0])
    return read_quant_params(value) if operator_name(value) == "relax.quantize" else FLOAT
