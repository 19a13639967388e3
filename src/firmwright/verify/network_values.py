"""Describes the values of a network's inputs and outputs for later stages.

The step size of an output is its change by one step of its last quantized tensor.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax

from firmwright.ir.operators import VALUE_PRESERVING
from firmwright.ir.relax import constant_array, main_bindings, operator_name
from firmwright.ir.tensors import ModelInterface
from firmwright.verify.input_ranges import find_input_ranges, find_whole_inputs
from firmwright.verify.run_records import NetworkValues


def describe_values(module: tvm.IRModule, interface: ModelInterface) -> NetworkValues:
    """Return the facts that the network states about its inputs and outputs."""
    names = [tensor.name for tensor in interface.parameters]
    ranges = dict(zip(names, find_input_ranges(module), strict=True))
    whole = zip(names, find_whole_inputs(module), strict=True)
    return NetworkValues(
        ranges={name: limits for name, limits in ranges.items() if limits is not None},
        whole=tuple(name for name, is_whole in whole if is_whole),
        output_steps=find_output_steps(module),
    )


def find_output_steps(module: tvm.IRModule) -> tuple[float, ...]:
    """Return the step size of each result of ``main``, in the result's units.

    The size is 1 for integers that a quantize wrote. For floating point, the size is the largest
    scale of the last dequantized tensors from which the result was computed. Later factors are
    ignored. The size is 0 for other types, which are exact or have no steps.
    """
    values = {b.var: b.value for b in main_bindings(module)}
    result = module["main"].body.body
    while result in values:
        result = values[result]
    outputs = result.fields if isinstance(result, relax.Tuple) else [result]
    return tuple(find_step(output, values) for output in outputs)


def find_step(output: relax.Expr, values: Mapping[relax.Var, relax.Expr]) -> float:
    is_float = "float" in str(getattr(output.ty, "dtype", ""))
    calls = find_sources(output, values, "relax.dequantize" if is_float else "relax.quantize")
    if is_float:
        return max((float(constant_array(call.args[1]).max()) for call in calls), default=0.0)
    return float(bool(calls))


def find_sources(
    output: relax.Expr, values: Mapping[relax.Var, relax.Expr], operator: str
) -> list[tvm.ir.Call]:
    """Return the last calls of ``operator`` on which a value depends.

    A quantize counts only if its integers reach the value unchanged.
    """
    waiting, seen, calls = [output], set(), []
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        name = operator_name(value)
        if value in values:
            waiting.append(values[value])
        elif name == operator:
            calls.append(value)
        elif isinstance(value, relax.Tuple):
            waiting.extend(value.fields)
        elif isinstance(value, relax.TupleGetItem):
            waiting.append(value.tuple_value)
        elif name and (operator == "relax.dequantize" or name in VALUE_PRESERVING):
            waiting.extend(value.args)
    return calls
