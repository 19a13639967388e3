"""The grids of the integers that a region reads and hands over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from firmwright.ir.operators import LAYOUT
from firmwright.ir.relax import constant_array, main_bindings, operator_name, read_variables


@dataclass(frozen=True)
class TensorQuantParams:
    """A real number is ``scale`` times (integer - ``zero_point``); a float is itself."""

    scale: float = 1.0
    zero_point: int = 0


def boundary_quant_params(function: relax.Function) -> list[TensorQuantParams]:
    """Return the grids of a region's inputs, then of its outputs.

    An input has that of the dequantize that reads it, an output that of the quantize that makes
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


def find_input_params(tensor: relax.Var, bindings: Sequence[relax.VarBinding]) -> TensorQuantParams:
    """Return the grid by which a tensor's first reader that is a dequantize takes it."""
    same = {tensor}
    for binding in bindings:
        if same.isdisjoint(read_variables(binding.value)):
            continue
        name = operator_name(binding.value)
        if name == "relax.dequantize":
            return read_quant_params(binding.value)
        if name in LAYOUT:
            same.add(binding.var)
    return TensorQuantParams()


def find_output_params(
    tensor: relax.Var, makers: Mapping[relax.Var, relax.Expr]
) -> TensorQuantParams:
    """Return the grid of the quantize that a tensor comes from."""
    value = makers.get(tensor)
    while operator_name(value) in LAYOUT:
        value = makers.get(read_variables(value)[0])
    return (
        read_quant_params(value)
        if operator_name(value) == "relax.quantize"
        else TensorQuantParams()
    )


def read_quant_params(call: tvm.ir.Call) -> TensorQuantParams:
    """Return the one grid of a quantize or dequantize of activations."""
    scale, zero_point = (constant_array(a).reshape(-1)[0] for a in call.args[1:3])
    return TensorQuantParams(float(scale), int(zero_point))
