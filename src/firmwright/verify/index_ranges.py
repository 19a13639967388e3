"""Finds the integers of an input that the network accepts as indices, for random samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.data.samples import Range
from firmwright.ir.operators import PERMUTATIONS, relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    main_bindings,
    operator_name,
    read_variables,
    static_shape,
)

Readers = Mapping[relax.Var, Sequence[relax.VarBinding]]
Limit = Callable[[tvm.ir.Call, relax.Var], int]
"""A function that returns the largest integer of a variable that an operator accepts."""

EVERY_INTEGER: Range = (-np.inf, np.inf)


def find_last(call: tvm.ir.Call, _: relax.Var) -> int:
    """Return the last index of the axis, or of all elements if the operator has no axis."""
    lengths, axis = static_shape(call.args[0]), call.attrs.axis
    return (prod(lengths) if axis is None else lengths[int(axis)]) - 1


def find_last_of_vectors(call: tvm.ir.Call, _: relax.Var) -> int:
    """Return the last index of the shortest axis that the vectors of indices address."""
    begin = int(getattr(call.attrs, "batch_dims", 0))
    count = static_shape(call.args[1])[-1]
    return min(static_shape(call.args[0])[begin : begin + count], default=1) - 1


def find_last_of_tuple(call: tvm.ir.Call, variable: relax.Var) -> int:
    """Return the last index of the axis whose field in the tuple of indices is the variable."""
    axes = [axis for axis, field in enumerate(call.args[1].fields) if field == variable]
    return min(static_shape(call.args[0])[axis] for axis in axes) - 1


INDEXED: Mapping[str, Limit] = {
    "relax.gather_elements": find_last,
    "relax.gather_nd": find_last_of_vectors,
    "relax.index_put": find_last_of_tuple,
    "relax.index_tensor": find_last_of_tuple,
    "relax.reverse_sequence": lambda call, _: static_shape(call.args[0])[int(call.attrs.seq_axis)],
    "relax.scatter_elements": find_last,
    "relax.scatter_nd": find_last_of_vectors,
    "relax.take": find_last,
    "relax.vision.roi_align": lambda call, _: static_shape(call.args[0])[0] - 1,
}
"""Operators whose second operand has indices, and the functions that return the largest index."""

PASSING = PERMUTATIONS | relax_names(
    "astype broadcast_to ceil clip floor round strided_slice trunc where"
)
ARITHMETIC = relax_names("add multiply subtract")


def find_readers(module: tvm.IRModule) -> Readers:
    readers: dict[relax.Var, list[relax.VarBinding]] = defaultdict(list)
    for binding in main_bindings(module):
        for variable in read_variables(binding.value):
            readers[variable].append(binding)
    return readers


def find_index_range(variable: relax.Var, readers: Readers) -> Range:
    """Return the integers that every operator that uses the variable as an index accepts.

    Parts of the variable also count. The result is all numbers if the variable is not an index.
    """
    low, high = EVERY_INTEGER
    for binding in readers.get(variable, ()):
        least, most = find_accepted(variable, binding, readers)
        low, high = max(low, least), min(high, most)
    return low, high


def find_accepted(variable: relax.Var, binding: relax.VarBinding, readers: Readers) -> Range:
    call, name = binding.value, operator_name(binding.value)
    if name in INDEXED and variable in read_variables(call.args[1]):
        return 0, INDEXED[name](call, variable)
    joined = name == "relax.concat" and carries_indices(variable, call)
    if isinstance(call, relax.Var) or name in PASSING or joined:
        return find_index_range(binding.var, readers)
    if name in ARITHMETIC and not is_choice(variable, binding.var, readers):
        return undo_arithmetic(call, find_index_range(binding.var, readers))
    if name == "relax.equal":
        return find_compared(call)
    return EVERY_INTEGER


def carries_indices(variable: relax.Var, concat: tvm.ir.Call) -> bool:
    """Return whether a part of joined tensors may be indices.

    Only the first part of float tensors may be indices.
    """
    return "int" in dtype_of(variable) or concat.args[0].fields[0] == variable


def is_choice(variable: relax.Var, sum_: relax.Var, readers: Readers) -> bool:
    """Return whether every reader of a sum selects either the sum or the variable.

    Networks use this form to convert an index from the end to an index from the start.
    """
    following = readers.get(sum_, ())
    return bool(following) and all(
        is_choice(variable, binding.var, readers)
        if operator_name(binding.value) == "relax.astype"
        else operator_name(binding.value) == "relax.where" and variable in binding.value.args[:]
        for binding in following
    )


def undo_arithmetic(call: tvm.ir.Call, accepted: Range) -> Range:
    """Return the range of an operand to which an operator adds, subtracts or multiplies constants.

    A negative difference counts from the end. Operands that are not constants count as 0.
    """
    numbers = [constant_array(a) for a in call.args if isinstance(a, Constant)]
    low, high = accepted
    if not numbers or not numbers[0].size:
        return accepted
    least, most = float(numbers[0].min()), float(numbers[0].max())
    if operator_name(call) == "relax.add":
        return low - least, high - most
    if operator_name(call) == "relax.subtract":
        return (low + least, high + least) if isinstance(call.args[1], Constant) else EVERY_INTEGER
    return (np.ceil(low / most), np.floor(high / most)) if least > 0 else EVERY_INTEGER


def find_compared(call: tvm.ir.Call) -> Range:
    """Return the range of the distinct numbers with which a one-hot encoding compares."""
    constants = [constant_array(a) for a in call.args if isinstance(a, Constant)]
    numbers = constants[0].reshape(-1).tolist() if constants else []
    if len(numbers) < 2 or numbers != list(range(len(numbers))):
        return EVERY_INTEGER
    return 0, len(numbers) - 1
