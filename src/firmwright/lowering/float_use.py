"""Finds the operators of a region that compute quantized values in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firmwright.ir.kernels import FloatOperator
from firmwright.ir.nodes import Function, Var, VarBinding
from firmwright.ir.operators import relax_names, short_name
from firmwright.ir.regions import Region
from firmwright.ir.relax import list_bindings, operator_name, read_variables
from firmwright.ir.tensors import is_source_name
from firmwright.lowering.kernels.quantized_tensor import QuantizedTensor, Value

CONVERSIONS = relax_names("quantize dequantize")


@dataclass(frozen=True)
class ArithmeticUse:
    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]


def summarize_use(
    region: Region,
    function: Function,
    values: Mapping[Var, Value],
    finished: Function,
) -> ArithmeticUse:
    """Return the operators of a region that run in float32.

    ``values`` maps each variable of the region's old ``function`` to the new value. An operator
    runs in float32 if the ``finished`` function still contains the operator's float result. If a
    rounding computed the operator again on integers, the float result was removed as dead code.
    """
    kept = {b.var for b in list_bindings(finished)}
    operators = list_quantized_operators(region, function)
    floats = [b for b in operators if not isinstance(values[b.var], QuantizedTensor)]
    return ArithmeticUse(
        len(operators),
        tuple(
            FloatOperator(short_name(b.value), find_source_name(region, b.var))
            for b in floats
            if values[b.var] in kept
        ),
    )


def list_quantized_operators(region: Region, function: Function) -> list[VarBinding]:
    """Return the operators that read a dequantized value directly or through other operators."""
    parameters = zip(function.params, region.inputs, strict=True)
    dequantized = {p for p, name in parameters if name in region.dequantized}
    operators = []
    for binding in list_bindings(function):
        name, read = operator_name(binding.value), read_variables(binding.value)
        if name == "relax.dequantize" and read:
            dequantized.add(binding.var)
        if name not in CONVERSIONS and any(v in dequantized for v in read):
            dequantized.add(binding.var)
            if name:  # an operator with several results has no name
                operators.append(binding)
    return operators


def find_source_name(region: Region, variable: Var) -> str:
    """Return an operator's name in the model.

    If the operator has no name in the model, the result is the region's first source name.
    """
    name = str(variable.name)
    return name if is_source_name(name) else next(iter(region.sources), "")
