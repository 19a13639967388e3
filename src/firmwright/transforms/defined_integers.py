"""Integer operators that C leaves undefined for some values get a value for all of them.

Networks compute with integers that wrap around, are divided by numbers only known at run time,
and are cast from any float. What comes out is what the reference runtimes give on x86-64, where
they give anything; a division by zero gives zero.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from firmwright.transforms.rewriting import (
    Constant,
    constant_array,
    dtype_of,
    operator_name,
    rewrite_calls,
)

UNSIGNED = {"int32": "uint32", "int64": "uint64", "uint16": "uint32"}
"""Types to compute in: theirs overflow (in C, uint16 is computed as int), and unsigned wraps."""

WRAPPING = ("relax.add", "relax.subtract", "relax.multiply")
DIVIDING = ("relax.divide", "relax.floor_divide", "relax.mod", "relax.floor_mod")
SHIFTING = ("relax.left_shift", "relax.right_shift")


def define_integers(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite every operator of ``main`` whose C might overflow, divide by zero or shift too far."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        if name == "relax.astype":
            return defined_cast(builder, call)
        if not isinstance(call.ty, relax.TensorType):
            return call
        dtype = dtype_of(call)
        if name in WRAPPING and dtype in UNSIGNED:
            wide = [builder.emit(relax.op.astype(a, UNSIGNED[dtype])) for a in call.args]
            result = builder.emit(tvm.ir.Call(call.op, wide, call.attrs, call.ty_args))
            return relax.op.astype(result, dtype)
        if name in DIVIDING and dtype.startswith(("int", "uint")):
            return defined_division(builder, call)
        if name in SHIFTING:
            return defined_shift(builder, call)
        return call

    return rewrite_calls(module, rewrite)


def scalar(value: float, dtype: str) -> relax.Expr:
    return relax.const(np.array(value, dtype), dtype)


def defined_division(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Divide by 1 in place of 0 and -1, and put 0 or the wrapped negative there."""
    numerator, divisor = call.args
    dtype = dtype_of(call)
    if isinstance(divisor, Constant):
        values = constant_array(divisor).astype(object)
        if all(v not in (0, -1) for v in values.reshape(-1)):
            return call
    zero, one = scalar(0, dtype), scalar(1, dtype)
    by_zero = builder.emit(relax.op.equal(divisor, zero))
    safe = builder.emit(relax.op.where(by_zero, one, divisor))
    by_minus_one = None
    if dtype.startswith("int"):
        by_minus_one = builder.emit(relax.op.equal(divisor, scalar(-1, dtype)))
        safe = builder.emit(relax.op.where(by_minus_one, one, safe))
    result = builder.emit(tvm.ir.Call(call.op, [numerator, safe], call.attrs, call.ty_args))
    if by_minus_one is not None:
        negative = zero
        if operator_name(call) in ("relax.divide", "relax.floor_divide"):
            unsigned = UNSIGNED.get(dtype, dtype)
            wide = builder.emit(relax.op.astype(numerator, unsigned))
            wrapped = builder.emit(relax.op.subtract(scalar(0, unsigned), wide))
            negative = builder.emit(relax.op.astype(wrapped, dtype))
        result = builder.emit(relax.op.where(by_minus_one, negative, result))
    return relax.op.where(by_zero, zero, result)


def defined_shift(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Shift everything out, to 0, where the count is not below the number of bits."""
    value, count = call.args
    dtype = dtype_of(call)
    bits = np.iinfo(dtype).bits
    if isinstance(count, Constant):
        counts = constant_array(count).astype(object)
        if all(0 <= c < bits for c in counts.reshape(-1)):
            return call
    limit = scalar(bits - 1, dtype)
    within = builder.emit(relax.op.less_equal(count, limit))
    safe = builder.emit(relax.op.where(within, count, scalar(0, dtype)))
    shifted = builder.emit(tvm.ir.Call(call.op, [value, safe], call.attrs, call.ty_args))
    return relax.op.where(within, shifted, scalar(0, dtype))


def defined_cast(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Cast floats outside the integers' range, and NaN, to the lowest number, as x86-64 does.

    Types of fewer than 32 bits get the low bits of that cast to int32.
    """
    source, target = dtype_of(call.args[0]), str(call.attrs.dtype)
    if not source.startswith("float") or not target.startswith(("int", "uint")):
        return call
    through = "int64" if target in ("int64", "uint32", "uint64") else "int32"
    lowest = float(np.iinfo(through).min)
    value = call.args[0]
    low = builder.emit(relax.op.greater_equal(value, scalar(lowest, source)))
    high = builder.emit(relax.op.less(value, scalar(-lowest, source)))
    inside = builder.emit(relax.op.logical_and(low, high))
    safe = builder.emit(relax.op.where(inside, value, scalar(lowest, source)))
    cast = relax.op.astype(safe, through)
    return cast if through == target else relax.op.astype(builder.emit(cast), target)
