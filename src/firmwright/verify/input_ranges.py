"""Finds the ranges that a model states for its inputs.

Random samples are drawn from these ranges. The range of an index is the range of the axes that the
input indexes.
"""

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
from firmwright.transforms import canonicalize
from firmwright.transforms.integers.elementwise_functions import are_whole, read_constant
from firmwright.transforms.integers.ranges import SUMS

PASSING = PERMUTATIONS | relax_names("ceil floor nn.pad round strided_slice")
"""Operators whose result has the range of their operand."""

EVERYTHING: Range = (-np.inf, np.inf)

Readers = Mapping[relax.Var, Sequence[relax.VarBinding]]
Limit = Callable[[tvm.ir.Call, relax.Var], int]
"""A function that returns the largest integer of a variable that an operator accepts."""


def find_input_ranges(module: tvm.IRModule) -> tuple[Range | None, ...]:
    """Return the range of values that the readers of each parameter of ``main`` distinguish.

    A quantize distinguishes the values that its quantization parameters can represent. A clip
    distinguishes the values between its limits. An earlier product with a number scales these
    limits. If a parameter has several readers, the range is the smallest range that contains the
    ranges of all readers. Integers have the range of the axes that they index. Infinite ranges are
    None.
    """
    parameters = module["main"].params
    readers = find_readers(module)
    indices = find_index_ranges(module)
    if not any("float" in dtype_of(p) for p in parameters):
        return indices
    if not all(is_only_quantized(p, readers) for p in parameters):
        module = canonicalize(module)  # this slow pass makes the limits of clips constants
        readers = find_readers(module)
    pairs = zip(module["main"].params, indices, strict=True)
    return tuple(index_range or find_range(p, readers) for p, index_range in pairs)


def find_index_ranges(module: tvm.IRModule) -> tuple[Range | None, ...]:
    """Return the range of the axes that each parameter of ``main`` indexes, or None.

    The range has only numbers of the parameter's type.
    """
    readers = find_readers(module)
    return tuple(
        find_finite(limit_to_type(find_index_range(parameter, readers), dtype_of(parameter)))
        for parameter in module["main"].params
    )


def limit_to_type(limits: Range, dtype: str) -> Range:
    if not dtype.startswith(("int", "uint")):
        return limits
    known = np.iinfo(dtype)
    return max(limits[0], int(known.min)), min(limits[1], int(known.max))


def is_only_quantized(variable: relax.Var, readers: Readers) -> bool:
    return variable in readers and all(
        is_only_quantized(binding.var, readers)
        if operator_name(binding.value) in PASSING
        else operator_name(binding.value) == "relax.quantize"
        and find_quantized_range(binding.value) != EVERYTHING
        for binding in readers[variable]
    )


def find_range(parameter: relax.Var, readers: Readers) -> Range | None:
    dtype = dtype_of(parameter)
    if "float" not in dtype:
        return None
    largest = float(np.finfo("float16" if dtype == "float16" else "float32").max)
    low, high = join_ranges(parameter, readers)
    return (low, high) if -largest < low < high < largest else None


def find_finite(limits: Range) -> Range | None:
    low, high = limits
    return (int(low), int(high)) if low <= high and np.isfinite(limits).all() else None


def join_ranges(variable: relax.Var, readers: Readers) -> Range:
    kept = [find_kept_range(b, readers) for b in readers.get(variable, ())] or [EVERYTHING]
    return min(low for low, _ in kept), max(high for _, high in kept)


def find_kept_range(binding: relax.VarBinding, readers: Readers) -> Range:
    """Return the range outside which a reader, and its readers, distinguish no values."""
    call, name = binding.value, operator_name(binding.value)
    if name == "relax.quantize":
        return find_quantized_range(call)
    factor = find_factor(call)
    if factor is not None:
        ends = [end / factor for end in join_ranges(binding.var, readers)]
        return min(ends), max(ends)
    if name in PASSING:
        return join_ranges(binding.var, readers)
    low, high = find_limits(call)
    if (low, high) == EVERYTHING:
        return EVERYTHING
    next_low, next_high = join_ranges(binding.var, readers)
    return max(low, next_low), min(high, next_high)


def find_factor(call: relax.Expr) -> float | None:
    """Return the number by which an operator multiplies, or None for other operators."""
    name = operator_name(call)
    if name not in ("relax.multiply", "relax.divide") or not isinstance(call.args[1], Constant):
        return None
    numbers = constant_array(call.args[1]).astype(float)
    if numbers.size != 1 or not numbers.item():
        return None
    return float(numbers.item() if name == "relax.multiply" else 1 / numbers.item())


def find_whole_inputs(module: tvm.IRModule) -> tuple[bool, ...]:
    """Return whether each parameter of ``main`` has floats that represent integers.

    A layer with integer weights reads such a parameter before any other operator computes with it.
    The networks of NEMO have this form. Weights of only -1, 0 and 1 are not sufficient evidence.
    """
    bindings = main_bindings(module)
    values = {b.var: b.value for b in bindings}
    moved = {p: p for p in module["main"].params if "float" in dtype_of(p)}
    whole_parameters = set()
    for binding in bindings:
        call = binding.value
        read = [moved[v] for v in read_variables(call) if v in moved]
        if operator_name(call) in PASSING and read:
            moved[binding.var] = read[0]
        elif operator_name(call) in SUMS and read:
            weights = read_constant(call.args[1], values)
            if weights is not None and are_whole(weights) and np.abs(weights).max() > 1:
                whole_parameters.update(read)
    return tuple(p in whole_parameters for p in module["main"].params)


def find_limits(call: relax.Expr) -> Range:
    """Return the limits of a clip, or of a maximum or minimum with a constant."""
    name = operator_name(call)
    if name == "relax.clip":
        low, high = (float(limit.value) for limit in call.args[1:])
        return low, high
    if name in ("relax.maximum", "relax.minimum") and isinstance(call.args[1], Constant):
        limits = constant_array(call.args[1]).astype(float)
        is_lower = name == "relax.maximum"
        return (float(limits.min()), np.inf) if is_lower else (-np.inf, float(limits.max()))
    return EVERYTHING


def find_quantized_range(quantize: tvm.ir.Call) -> Range:
    """Return the smallest and the largest value that a quantize can represent."""
    scale, zero_point = quantize.args[1:]
    if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)):
        return EVERYTHING
    ends = np.iinfo(dtype_of(quantize))
    steps, zero = constant_array(scale).astype(float), constant_array(zero_point).astype(float)
    return float(((ends.min - zero) * steps).min()), float(((ends.max - zero) * steps).max())


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

INDEX_PASSING = PERMUTATIONS | relax_names(
    "astype broadcast_to ceil clip floor round strided_slice trunc where"
)
"""Operators whose result has indices if their operand has indices."""
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
    low, high = EVERYTHING
    for binding in readers.get(variable, ()):
        least, most = find_accepted(variable, binding, readers)
        low, high = max(low, least), min(high, most)
    return low, high


def find_accepted(variable: relax.Var, binding: relax.VarBinding, readers: Readers) -> Range:
    call, name = binding.value, operator_name(binding.value)
    if name in INDEXED and variable in read_variables(call.args[1]):
        return 0, INDEXED[name](call, variable)
    joined = name == "relax.concat" and carries_indices(variable, call)
    if isinstance(call, relax.Var) or name in INDEX_PASSING or joined:
        return find_index_range(binding.var, readers)
    if name in ARITHMETIC and not is_choice(variable, binding.var, readers):
        return undo_arithmetic(call, find_index_range(binding.var, readers))
    if name == "relax.equal":
        return find_compared(call)
    return EVERYTHING


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
        return (low + least, high + least) if isinstance(call.args[1], Constant) else EVERYTHING
    return (np.ceil(low / most), np.floor(high / most)) if least > 0 else EVERYTHING


def find_compared(call: tvm.ir.Call) -> Range:
    """Return the range of the distinct numbers with which a one-hot encoding compares."""
    constants = [constant_array(a) for a in call.args if isinstance(a, Constant)]
    numbers = constants[0].reshape(-1).tolist() if constants else []
    if len(numbers) < 2 or numbers != list(range(len(numbers))):
        return EVERYTHING
    return 0, len(numbers) - 1
