"""Moves elements as integers between a dequantize and a quantize with equal parameters.

Copies each dequantize to its readers, so that dequantized activations are never stored.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import structural_map

from firmwright.ir.chains import is_per_tensor
from firmwright.ir.operators import PERMUTATIONS, relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    count_readers,
    definition,
    dtype_of,
    emit_with_name,
    main_bindings,
    operator_name,
    rewrite_bindings,
    rewrite_calls,
    rewrite_each,
    static_shape,
)

SELECTING_OPERATORS = PERMUTATIONS | relax_names("strided_slice take nn.max_pool2d")
"""Operators whose result elements are elements of their input. The order of integers is kept."""


@rewrite_each("relax.quantize")
def keep_layout_on_integers(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Rewrite quantize(select(dequantize(x))) to select(x) if both have equal parameters."""
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


@rewrite_each("relax.quantize")
def concat_integers(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Rewrite quantize(concat(dequantize(x), …)) to concat(x, …) if all parameters are equal."""

    def find_integers(value: relax.Expr) -> relax.Expr | None:
        source = definition(builder, value)
        if operator_name(source) == "relax.dequantize":
            return source.args[0] if has_same_quant_params(source, call) else None
        if operator_name(source) != "relax.concat" or not isinstance(source.args[0], relax.Tuple):
            return None
        parts = [find_integers(part) for part in source.args[0].fields]
        if any(part is None for part in parts):
            return None
        joined = tvm.ir.Call(source.op, [relax.Tuple(parts)], source.attrs)
        return emit_with_name(builder, joined, str(value.name))

    if operator_name(definition(builder, call.args[0])) != "relax.concat":
        return call
    integers = find_integers(call.args[0])
    return call if integers is None else integers


def has_same_quant_params(dequantize: tvm.ir.Call, quantize: tvm.ir.Call) -> bool:
    """Return whether both have equal per-tensor scales, zero points and integer types."""
    if dtype_of(dequantize.args[0]) != str(quantize.attrs.out_dtype):
        return False
    for before, after in zip(dequantize.args[1:], quantize.args[1:], strict=True):
        if not (isinstance(before, Constant) and isinstance(after, Constant)):
            return False
        ours, theirs = constant_array(before), constant_array(after)
        if ours.size != 1 or theirs.size != 1 or np.float64(ours.item()) != theirs.item():
            return False
    return True


ACTIVATIONS = relax_names(
    "add clip divide maximum minimum multiply nn.leakyrelu nn.relu sigmoid subtract tanh"
)
"""The operators that networks have between a convolution and its quantize."""

ElementwiseCall = tuple[relax.Var, tvm.ir.Call, int]
"""An elementwise operator, the variable to which it is bound, and the position of its argument."""


def quantize_before_subsampling(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite quantize(f(pick(x))) to pick(quantize(f(x))) for elementwise functions f.

    The rewrite is exact, because the computation of each picked element does not change. Only the
    quantize may read the intermediate values. ConvertConvStride adds a picking 1x1 max-pool after a
    convolution. Between the convolution and the quantize, the pool would move floats.
    """
    uses = count_readers(module)

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.quantize" or not is_per_tensor(call):
            return call
        steps, pick = find_elementwise_chain(builder, call.args[0], uses)
        if pick is None or not all(is_uniform_per_channel(step, pick) for step in steps):
            return call
        value = pick.args[0]
        for variable, step, position in reversed(steps):
            arguments = [value if i == position else a for i, a in enumerate(step.args)]
            moved = tvm.ir.Call(step.op, arguments, step.attrs)
            value = emit_with_name(builder, moved, str(variable.name))
        quantized = builder.emit(tvm.ir.Call(call.op, [value, *call.args[1:]], call.attrs))
        return tvm.ir.Call(pick.op, [quantized], pick.attrs)

    return rewrite_calls(module, rewrite)


def find_elementwise_chain(
    builder: relax.BlockBuilder, value: relax.Expr, uses: Counter[relax.Var]
) -> tuple[list[ElementwiseCall], tvm.ir.Call | None]:
    """Return the elementwise operators of one tensor before a value, and the preceding pick."""
    steps: list[ElementwiseCall] = []
    while isinstance(value, relax.Var) and uses[value] == 1:
        source = definition(builder, value)
        if is_subsampling(source):
            return steps, source
        if operator_name(source) not in ACTIVATIONS:
            break
        computed = [i for i, a in enumerate(source.args) if not is_constant(builder, a)]
        if len(computed) != 1:
            break
        steps.append((value, source, computed[0]))
        value = source.args[computed[0]]
    return steps, None


def is_subsampling(value: relax.Expr) -> bool:
    """Return whether an operator is a max-pool whose windows are single elements of its input."""
    if operator_name(value) != "relax.nn.max_pool2d":
        return False
    attrs = value.attrs
    return [int(k) for k in attrs.pool_size] == [1, 1] and not any(int(p) for p in attrs.padding)


def is_constant(builder: relax.BlockBuilder, value: relax.Expr) -> bool:
    """Return whether a value is a constant, possibly dequantized, and does not depend on inputs."""
    source = definition(builder, value)
    if isinstance(source, tvm.ir.Call):
        return all(is_constant(builder, a) for a in source.args)
    return not isinstance(source, relax.Var)


def is_uniform_per_channel(step: ElementwiseCall, pick: tvm.ir.Call) -> bool:
    """Return whether each constant of a step has one value for all elements of a channel."""
    _, call, position = step
    layout = str(pick.attrs.layout)
    constants = [a for i, a in enumerate(call.args) if i != position]
    shapes = [static_shape(a) for a in constants if isinstance(a, relax.Var | Constant)]
    lengths = [dict(zip(reversed(layout), reversed(shape), strict=False)) for shape in shapes]
    return all(len(shape) <= len(layout) for shape in shapes) and all(
        length.get(axis, 1) == 1 for length in lengths for axis in "HW"
    )


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
