"""Integer operators that C leaves undefined for some values get a value for all of them.

Networks compute with integers that wrap around, are divided by numbers only known at run time,
and are cast from any float. Sums and products wrap around as the reference runtimes let them;
a division by zero gives zero, and a cast of too large a float the nearest number.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.operators import relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
    rewrite_each,
)

UNSIGNED = {"int32": "uint32", "int64": "uint64"}
"""Types to compute in: theirs overflow, unsigned wraps. Shorter ones wrap where C is written."""

WRAPPING_OPERATORS = relax_names("add subtract multiply")
DIVISION_OPERATORS = relax_names("divide floor_divide mod floor_mod")
SHIFT_OPERATORS = relax_names("left_shift right_shift")


def remove_undefined_behavior(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite every operator of ``main`` whose C might overflow, or divide or shift by anything."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        if name == "relax.astype":
            return saturate_cast(builder, call)
        if not isinstance(call.ty, relax.TensorType):
            return call
        dtype = dtype_of(call)
        if name in WRAPPING_OPERATORS and dtype in UNSIGNED:
            wide = [cast_wrapping(builder, a, UNSIGNED[dtype]) for a in call.args]
            result = builder.emit(tvm.ir.Call(call.op, wide, call.attrs, call.ty_args))
            return relax.op.astype(result, dtype)
        if name in DIVISION_OPERATORS and dtype.startswith(("int", "uint")):
            return guard_division(builder, call)
        if name in SHIFT_OPERATORS:
            return guard_shift(builder, call)
        return call

    return rewrite_calls(module, rewrite)


def make_scalar(value: float, dtype: str) -> relax.Expr:
    return relax.const(np.array(value, dtype), dtype)


def cast_wrapping(builder: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    """Cast an integer to one of the same width; TVM refuses to cast a negative constant."""
    if isinstance(value, Constant):
        return relax.const(constant_array(value).astype(dtype), dtype)
    return builder.emit(relax.op.astype(value, dtype))


def guard_division(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Divide by 1 in place of 0 and -1, and put 0 or the wrapped negative there."""
    numerator, divisor = call.args
    dtype = dtype_of(call)
    if isinstance(divisor, Constant):
        values = constant_array(divisor).astype(object)
        if all(v not in (0, -1) for v in values.reshape(-1)):
            return call
    zero, one = make_scalar(0, dtype), make_scalar(1, dtype)
    by_zero = builder.emit(relax.op.equal(divisor, zero))
    safe = builder.emit(relax.op.where(by_zero, one, divisor))
    by_minus_one = None
    if dtype.startswith("int"):
        by_minus_one = builder.emit(relax.op.equal(divisor, make_scalar(-1, dtype)))
        safe = builder.emit(relax.op.where(by_minus_one, one, safe))
    result = builder.emit(tvm.ir.Call(call.op, [numerator, safe], call.attrs, call.ty_args))
    if by_minus_one is not None:
        negative = zero
        if operator_name(call) in ("relax.divide", "relax.floor_divide"):
            unsigned = UNSIGNED.get(dtype, dtype)
            wide = cast_wrapping(builder, numerator, unsigned)
            wrapped = builder.emit(relax.op.subtract(make_scalar(0, unsigned), wide))
            negative = builder.emit(relax.op.astype(wrapped, dtype))
        result = builder.emit(relax.op.where(by_minus_one, negative, result))
    return relax.op.where(by_zero, zero, result)


def guard_shift(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Shift everything out, to 0, where the count is not below the number of bits."""
    value, count = call.args
    dtype = dtype_of(call)
    bits = np.iinfo(dtype).bits
    if isinstance(count, Constant):
        counts = constant_array(count).astype(object)
        if all(0 <= c < bits for c in counts.reshape(-1)):
            return call
    limit = make_scalar(bits - 1, dtype)
    within = builder.emit(relax.op.less_equal(count, limit))
    safe = builder.emit(relax.op.where(within, count, make_scalar(0, dtype)))
    shifted = builder.emit(tvm.ir.Call(call.op, [value, safe], call.attrs, call.ty_args))
    return relax.op.where(within, shifted, make_scalar(0, dtype))


def saturate_cast(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Saturate floats at the integers' limits; NaN becomes the largest.

    Types of fewer than 32 bits get the low bits of the cast to int32, as on x86-64.
    """
    value = call.args[0]
    source, target = dtype_of(value), str(call.attrs.dtype)
    if not source.startswith("float") or not target.startswith(("int", "uint")):
        return call
    through = "int64" if target in ("int64", "uint32", "uint64") else "int32"
    low = float(np.iinfo(through).min)
    high = float(np.nextafter(np.array(-low, source), np.array(0, source)))
    made_by = definition(builder, value)
    if operator_name(made_by) == "relax.clip":
        bounds = [float(a.value) for a in made_by.args[1:] if isinstance(a, tvm.tirx.FloatImm)]
        if len(bounds) == 2 and low <= bounds[0] <= bounds[1] <= high:
            return call
    saturated = builder.emit(relax.op.clip(value, low, high))
    cast = relax.op.astype(saturated, through)
    return cast if through == target else relax.op.astype(builder.emit(cast), target)


@rewrite_each("relax.take")
def clamp_take_indices(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Clamp the indices of every ``relax.take``: the importers' ``take`` trusts them."""
    if str(call.attrs.mode) != "fast":
        return call
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    return builder.normalize(relax.op.take(call.args[0], call.args[1], axis, "clip"))
