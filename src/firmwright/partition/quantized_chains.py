"""Finds the layers of a quantized network: dequantize, float operators, quantize."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import has_constant_params, is_dequantized
from firmwright.ir.operators import short_name
from firmwright.ir.relax import (
    Constant,
    constant_array,
    count_readers,
    dtype_of,
    main_bindings,
    read_variables,
)

Bound = Mapping[relax.Var, relax.VarBinding]


@dataclass(frozen=True)
class StoredTensor:
    """Integers of the type ``dtype`` that represent real numbers: scale · (integer - zero point).

    ``value`` is a constant or a variable. ``scale`` and ``zero_point`` have one number, or one
    number per element of the ``axis``.
    """

    value: relax.Expr
    dtype: str
    scale: npt.NDArray[Any]
    zero_point: npt.NDArray[Any]
    axis: int

    @property
    def is_constant(self) -> bool:
        return isinstance(self.value, Constant)


@dataclass(frozen=True)
class QuantizedStep:
    """A float operator of a chain, the variable to which it is bound, and its operands.

    An operand is a stored tensor, or None if the operand is the result of the previous step.
    """

    variable: relax.Var
    call: tvm.ir.Call
    operands: tuple[StoredTensor | None, ...]


@dataclass(frozen=True)
class QuantizedChain:
    """An operator of stored tensors, the operators after it, and the quantize of the result.

    ``steps`` are the float operators in order of execution. ``result`` is the quantized result.
    ``variables`` are all variables that a composite of the chain needs, in order of execution.
    """

    steps: tuple[QuantizedStep, ...]
    result: StoredTensor
    variables: tuple[relax.Var, ...]


def find_quantized_chains(
    module: tvm.IRModule,
    kinds: Collection[str],
    behind: Collection[str] = (),
    function: str = "main",
) -> Iterator[QuantizedChain]:
    """Yield the chains of a function that begin with an operator of ``kinds``, such as "conv2d".

    Operators of ``behind``, such as "add" and "relu", may follow before the quantize. Each operator
    is the only reader of the previous operator. The other operands are also stored tensors. All
    float operands of a chain are dequantized. No other operator reads a float result of a chain.
    Operators that violate these conditions, and the operators before, are in no chain.
    """
    if function != "main":
        module = tvm.IRModule({"main": module[function].without_attr("global_symbol")})
    bindings, uses = main_bindings(module), count_readers(module)
    bound = {b.var: b for b in bindings}
    alone = {b.var for b in bindings if uses[b.var] == 1}
    reader = {v: b for b in bindings for v in read_variables(b.value) if v in alone}
    order = {b.var: number for number, b in enumerate(bindings)}
    for binding in bindings:
        if short_name(binding.value) in kinds:
            chain = match_chain(binding, behind, {v: bound[v] for v in alone}, reader)
            if chain is not None:
                ordered = sorted(chain.variables, key=order.__getitem__)
                yield replace(chain, variables=tuple(ordered))


def match_chain(
    first: relax.VarBinding, behind: Collection[str], bound: Bound, reader: Bound
) -> QuantizedChain | None:
    """Return the chain from an operator to the quantize of its result, or None.

    ``bound`` has the values that have one reader.
    """
    steps: list[QuantizedStep] = []
    variables: list[relax.Var] = []
    current: relax.VarBinding | None = first
    last: relax.Var | None = None
    while current is not None:
        kind = short_name(current.value)
        if last is not None and kind == "quantize" and has_constant_params(current.value):
            result = describe_stored(current.value, current.var, str(current.value.attrs.out_dtype))
            return QuantizedChain(tuple(steps), result, (*variables, current.var))
        read = find_operands(current.value, last, bound)
        if read is None or (last is not None and kind not in behind):
            return None
        steps.append(QuantizedStep(current.var, current.value, tuple(stored for _, stored in read)))
        variables += [*(v for v, stored in read if stored is not None), current.var]
        last, current = current.var, reader.get(current.var)
    return None


def find_operands(
    call: tvm.ir.Call, last: relax.Var | None, bound: Bound
) -> list[tuple[relax.Var, StoredTensor | None]] | None:
    """Return each operand and its stored tensor, or None if an operand has no dequantize.

    The stored tensor is None for ``last``, the result of the previous step.
    """
    tensors = [a for a in call.args if isinstance(a, relax.Var | relax.Tuple | Constant)]
    operands: list[tuple[relax.Var, StoredTensor | None]] = []
    for tensor in tensors:
        for operand in tensor.fields if isinstance(tensor, relax.Tuple) else [tensor]:
            if operand == last:
                operands.append((operand, None))
                continue
            maker = bound[operand].value if operand in bound else None
            if maker is None or not is_dequantized(maker):
                return None
            stored = maker.args[0]
            operands.append((operand, describe_stored(maker, stored, dtype_of(stored))))
    return operands


def describe_stored(call: tvm.ir.Call, value: relax.Expr, dtype: str) -> StoredTensor:
    """Return the integer tensor of a quantize or dequantize, and its quantization parameters."""
    scale, zero_point = (constant_array(a) for a in call.args[1:3])
    return StoredTensor(value, dtype, scale, zero_point, int(call.attrs.axis))
