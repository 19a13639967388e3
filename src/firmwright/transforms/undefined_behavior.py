"""Defines the results of integer operators for values that are undefined in C.

Networks compute integers that wrap around, divide by numbers that are known only at run time, and
cast any float. Sums and products wrap around, as in the reference runtimes. A division by zero
returns zero. A cast of a float that is too large returns the nearest number.
"""

from __future__ import annotations

from math import prod

import numpy as np
import tvm
from tvm import relax, tirx
from tvm_ffi import structural_map

from firmwright.ir.operators import relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
    rewrite_each,
    static_shape,
)
from firmwright.transforms.sixteen_bit_floats import replace_dtypes

UNSIGNED = {"int32": "uint32", "int64": "uint64"}
"""The unsigned types that replace types whose sums can overflow, because unsigned integers wrap
around. Shorter types wrap around when the C code is written.
"""

WRAPPING_OPERATORS = relax_names("add subtract multiply sum prod")
PRODUCT_OPERATORS = relax_names("matmul einsum")
DIVISION_OPERATORS = relax_names("divide floor_divide mod floor_mod")
SIGN_OPERATORS = relax_names("abs negative")
SHIFT_OPERATORS = relax_names("left_shift right_shift")
COMPARISONS = relax_names("equal not_equal less less_equal greater greater_equal")
KEEPS_SMALL = relax_names("astype add subtract permute_dims reshape")
SMALL = 2**9
"""The limit of an 8-bit number without its zero point."""


def remove_undefined_behavior(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite every operator whose C code might overflow, divide by 0 or shift by too many bits."""
    loops = {g: f for g, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
    for name, function in loops.items():
        module.update_func(name, wrap_stored_sums(function))
    return rewrite_calls(module, define_call)


def define_call(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    name = operator_name(call)
    if name == "relax.astype":
        return saturate_cast(builder, call)
    if not isinstance(call.ty, relax.TensorType):
        return call
    if name in COMPARISONS:
        return compare_with_array(call)
    return define_integers(builder, call) if dtype_of(call).startswith(("int", "uint")) else call


def define_integers(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    name, dtype = operator_name(call), dtype_of(call)
    if dtype in UNSIGNED and (
        name in WRAPPING_OPERATORS
        or (name in PRODUCT_OPERATORS and not all(is_small(builder, a) for a in call.args))
    ):
        return wrap(builder, call)
    if name in SIGN_OPERATORS and dtype.startswith("int"):
        return wrap_sign(builder, call)
    if name == "relax.mean":
        return average_integers(builder, call)
    if name in DIVISION_OPERATORS:
        return guard_division(builder, call)
    return guard_shift(builder, call) if name in SHIFT_OPERATORS else call


def wrap_stored_sums(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Wrap sums and products that loops store, such as the sums of CumSum."""

    def wrap_stored(store: tirx.BufferStore) -> tirx.Stmt:
        value, dtype = store.value, str(store.value.ty.dtype)
        if not isinstance(value, (tirx.Add, tirx.Sub, tirx.Mul)) or dtype not in UNSIGNED:
            return store
        wide = type(value)(*(tirx.Cast(UNSIGNED[dtype], side) for side in (value.a, value.b)))
        return tirx.BufferStore(store.buffer, tirx.Cast(dtype, wide), store.indices, store.span)

    return function.with_body(structural_map(function.body, (tirx.BufferStore, wrap_stored)))


def make_scalar(value: float, dtype: str) -> relax.Expr:
    return relax.const(np.array(value, dtype), dtype)


def compare_with_array(call: tvm.ir.Call) -> relax.Expr:
    """Convert a scalar of the smallest int32 to an array. TVM compares this scalar incorrectly."""
    if not static_shape(call):
        return call

    def keep(value: relax.Expr) -> relax.Expr:
        is_number = isinstance(value, Constant) and dtype_of(value) == "int32"
        if not is_number or constant_array(value).tolist() != np.iinfo("int32").min:
            return value
        return relax.const(constant_array(value).reshape(1), "int32")

    return tvm.ir.Call(call.op, [keep(a) for a in call.args], call.attrs, call.ty_args)


def wrap(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Compute sums or products in the unsigned type of equal width."""
    dtype = dtype_of(call)
    unsigned = UNSIGNED[dtype]

    def widen(value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([widen(field) for field in value.fields])
        return reinterpret(builder, value, unsigned)

    attributes = replace_dtypes(call.attrs, {dtype: unsigned})
    wide = [widen(value) for value in call.args]
    result = builder.emit(tvm.ir.Call(call.op, wide, attributes, call.ty_args))
    return relax.op.astype(result, dtype)


def reinterpret(builder: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    """Return integers with equal bits in a type of equal width.

    Negative scalar constants are converted directly, because TVM rejects their cast. Other values
    are cast. Devices recognize the casts of sums and biases that only wrap around.
    """
    if isinstance(value, Constant) and constant_array(value).ndim == 0:
        number = constant_array(value)
        if number.item() < 0:
            return relax.const(number.astype(dtype), dtype)
    return builder.emit(relax.op.astype(value, dtype))


def is_small(builder: relax.BlockBuilder, value: relax.Expr) -> bool:
    """Return whether a tensor has sums of few 8-bit numbers.

    Products of 8-bit numbers cannot overflow.
    """
    if isinstance(value, relax.Tuple):
        return all(is_small(builder, field) for field in value.fields)
    if isinstance(value, Constant):
        return bool(np.all(np.abs(constant_array(value).astype("float64")) < SMALL))
    if np.iinfo(dtype_of(value)).bits == 8:
        return True
    made_by = definition(builder, value)
    if operator_name(made_by) not in KEEPS_SMALL:
        return False
    tensors = (a for a in made_by.args if isinstance(a.ty, relax.TensorType))
    return all(is_small(builder, a) for a in tensors)


def negate(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Var:
    """Return the negative of signed integers. The smallest number is unchanged."""
    dtype = dtype_of(value)
    unsigned = UNSIGNED.get(dtype, dtype)
    wide = reinterpret(builder, value, unsigned)
    wrapped = builder.emit(relax.op.subtract(make_scalar(0, unsigned), wide))
    return builder.emit(relax.op.astype(wrapped, dtype))


def wrap_sign(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return the absolute value or the negative. The smallest number is unchanged."""
    (value,) = call.args
    negative = negate(builder, value)
    if operator_name(call) == "relax.negative":
        return negative
    is_negative = builder.emit(relax.op.less(value, make_scalar(0, dtype_of(value))))
    return relax.op.where(is_negative, negative, value)


def average_integers(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Add in 64 bits and round the quotient toward zero, as ONNX Runtime does.

    TVM's lowering returns int64 for a mean of any integer type.
    """
    (value,) = call.args
    axes = None if call.attrs.axis is None else [int(axis) for axis in call.attrs.axis]
    lengths = static_shape(value)
    count = prod(lengths if axes is None else [lengths[axis] for axis in axes])
    signed = dtype_of(call).startswith("int")
    # A sum of int64 may overflow, so it is computed as uint64, which wraps around.
    sum_type = "int64" if signed and dtype_of(call) != "int64" else "uint64"
    wide = builder.emit(relax.op.astype(value, sum_type))
    total = builder.emit(relax.op.sum(wide, axes, bool(call.attrs.keepdims)))
    quotient_type = "int64" if signed else "uint64"
    total = builder.emit(relax.op.astype(total, quotient_type))
    mean = builder.emit(relax.op.divide(total, make_scalar(count, quotient_type)))
    return relax.op.astype(mean, dtype_of(call))


def guard_division(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Divide by 1 instead of 0 and -1, and replace the results by 0 or the wrapped negative."""
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
            negative = negate(builder, numerator)
        result = builder.emit(relax.op.where(by_minus_one, negative, result))
    return relax.op.where(by_zero, zero, result)


def guard_shift(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Shift integers. The result is 0 if the shift count is not below the number of bits."""
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
    """Saturate floats at the integers' limits. NaN becomes the largest integer.

    Types with fewer than 32 bits contain the low bits of the cast to int32, as on x86-64.
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
        bounds = [float(a.value) for a in made_by.args[1:] if isinstance(a, tirx.FloatImm)]
        if len(bounds) == 2 and low <= bounds[0] <= bounds[1] <= high:
            return call
    saturated = builder.emit(relax.op.clip(value, low, high))
    cast = relax.op.astype(saturated, through)
    return cast if through == target else relax.op.astype(builder.emit(cast), target)


@rewrite_each("relax.take")
def clamp_take_indices(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Clamp the indices of every ``relax.take``, because ``take`` does not check indices."""
    if str(call.attrs.mode) != "fast":
        return call
    axis = None if call.attrs.axis is None else int(call.attrs.axis)
    return builder.normalize(relax.op.take(call.args[0], call.args[1], axis, "clip"))
