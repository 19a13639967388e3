"""Finds the ranges that a model states for its inputs.

Random samples are drawn from these ranges.
"""

from __future__ import annotations

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
)
from firmwright.transforms import canonicalize
from firmwright.transforms.integers.elementwise_functions import are_whole, read_constant
from firmwright.transforms.integers.ranges import SUMS
from firmwright.verify.index_ranges import Readers, find_index_range, find_readers

PASSING = PERMUTATIONS | relax_names("ceil floor nn.pad round strided_slice")
"""Operators whose result has the range of their operand."""

EVERYTHING: Range = (-np.inf, np.inf)


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
    return tuple(found or find_range(p, readers) for p, found in pairs)


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
    found = set()
    for binding in bindings:
        call = binding.value
        read = [moved[v] for v in read_variables(call) if v in moved]
        if operator_name(call) in PASSING and read:
            moved[binding.var] = read[0]
        elif operator_name(call) in SUMS and read:
            weights = read_constant(call.args[1], values)
            if weights is not None and are_whole(weights) and np.abs(weights).max() > 1:
                found.update(read)
    return tuple(p in found for p in module["main"].params)


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
