"""Replaces divisions by powers of two with the accelerator's right shift, if the result is exact.

Integer networks in ONNX write a requantization as Cast, Div, Floor, Clip, Cast (or Max and Min).
For int32 sums s, these operators compute clip(floor(s / 2**k)). The result equals a right shift by
k and a clip. Other operators between them define ONNX's casts for every number. ConvInteger and
MatMulInteger are imported as convolutions and products of operands that are cast to int32. This
module rewrites them to read int8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax

from firmwright.devices.soma_dory.matching import (
    INT8_RANGE,
    UNBOUNDED,
    intersect,
    read_number,
    read_scalar,
)
from firmwright.ir.chains import CONVOLUTION, PRODUCT
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
)

LARGEST_FLOAT32_SHIFT = 17
"""The largest shift for which float32 is exact.

Float32 represents whole numbers up to 2**24. Larger sums are rounded, but with a shift of 17 bits
or fewer, the quotients of these sums are outside int8 and are clipped.
"""


@dataclass(frozen=True)
class Quotient:
    """The value sums / 2**shift, with the following operators.

    ``rounding`` is "floor", "truncate" (toward zero), or "" while the quotient is a fraction.
    ``clip_range`` is the range of the clips after the rounding.
    """

    sums: relax.Var
    shift: int = 0
    rounding: str = ""
    clip_range: tuple[float, float] = UNBOUNDED
    float32: bool = False

    @property
    def is_exact(self) -> bool:
        """Return whether a right shift and a clip compute equal numbers."""
        low, high = self.clip_range
        if not INT8_RANGE[0] <= low <= high <= INT8_RANGE[1] or not 0 < self.shift <= 31:
            return False
        if not (low.is_integer() and high.is_integer()):
            return False
        if self.float32 and self.shift > LARGEST_FLOAT32_SHIFT:
            return False
        # For negative numbers, a division that truncates may return one more than a shift. A clip
        # to 0 or more removes the difference.
        return self.rounding == "floor" or (self.rounding == "truncate" and low >= 0)


def replace_divisions(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite each int8 value that is a rounded and clipped quotient of an int32 and a power of
    two."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.astype" or dtype_of(call) != "int8":
            return call
        quotient = read_quotient(call.args[0], builder)
        if quotient is None or not quotient.is_exact:
            return call
        count = relax.const(quotient.shift, "int32")
        shifted = builder.emit(relax.op.right_shift(quotient.sums, count))
        clipped = builder.emit(relax.op.clip(shifted, *quotient.clip_range))
        return relax.op.astype(clipped, "int8")

    return rewrite_calls(module, rewrite)


def read_quotient(value: relax.Expr, builder: relax.BlockBuilder) -> Quotient | None:
    """Return a value as a quotient of int32 sums, or None if the value has another form."""
    made = definition(builder, value)
    name = operator_name(made)
    if name not in QUOTIENT_STEPS:
        is_sums = isinstance(value, relax.Var) and dtype_of(value) == "int32"
        return Quotient(value) if is_sums else None
    operand = find_wrapped_operand(made, builder) if name == "relax.where" else made.args[0]
    before = read_quotient(made.args[2] if operand is None else operand, builder)
    after = None if before is None else QUOTIENT_STEPS[name](before, made, builder)
    return Quotient(value) if after is None and dtype_of(value) == "int32" else after


def apply_divide(before: Quotient, call: tvm.ir.Call, _: Any) -> Quotient | None:
    """Apply a division by 2**k. A division of integers truncates."""
    bits = find_exponent(call.args[1])
    if bits is None or before.rounding or before.clip_range != UNBOUNDED:
        return None
    rounded = "truncate" if dtype_of(call).startswith("int") else ""
    return replace(before, shift=before.shift + bits, rounding=rounded)


def apply_floor_divide(before: Quotient, call: tvm.ir.Call, builder: Any) -> Quotient | None:
    after = apply_divide(before, call, builder)
    return None if after is None else replace(after, rounding="floor")


def apply_multiply(before: Quotient, call: tvm.ir.Call, _: Any) -> Quotient | None:
    bits = find_exponent(call.args[1])
    if bits is None or before.rounding or before.clip_range != UNBOUNDED:
        return None
    return replace(before, shift=before.shift - bits)


def apply_floor(before: Quotient, _call: tvm.ir.Call, _: Any) -> Quotient:
    return replace(before, rounding=before.rounding or "floor")


def apply_clip(before: Quotient, call: tvm.ir.Call, _: Any) -> Quotient | None:
    bounds = read_clip_bounds(call)
    if bounds is None or not before.rounding:
        return None
    return replace(before, clip_range=intersect(before.clip_range, bounds))


def apply_cast(before: Quotient, call: tvm.ir.Call, _: Any) -> Quotient | None:
    """Apply a cast: a cast to float starts a quotient, a cast to an integer truncates it."""
    dtype = dtype_of(call)
    if dtype in ("float32", "float64"):
        return replace(before, float32=before.float32 or dtype == "float32")
    if dtype not in ("int32", "int64"):
        return None
    return replace(before, rounding=before.rounding or "truncate") if before.shift else before


def apply_where(
    before: Quotient, call: tvm.ir.Call, builder: relax.BlockBuilder
) -> Quotient | None:
    """Apply a ``where`` that returns its operand for finite numbers, or for numbers of int8."""
    if find_wrapped_operand(call, builder) is not None:
        low, high = before.clip_range
        return before if INT8_RANGE[0] <= low <= high <= INT8_RANGE[1] else None
    condition = definition(builder, call.args[0])
    if operator_name(condition) != "relax.logical_not":
        return None
    asked = definition(builder, condition.args[0])
    return before if operator_name(asked) == "relax.isfinite" else None


def find_wrapped_operand(call: tvm.ir.Call, builder: relax.BlockBuilder) -> relax.Expr | None:
    """Return x of ``where(b >= 128, b - 256, b)`` with b = x & 255: ONNX's cast to int8."""
    condition, less, low_byte = (definition(builder, a) for a in call.args)
    if operator_name(condition) != "relax.greater_equal" or operator_name(less) != "relax.astype":
        return None
    difference = definition(builder, less.args[0])
    if operator_name(difference) != "relax.subtract":
        return None
    first, second = (definition(builder, a) for a in difference.args)
    if not all(operator_name(v) == "relax.astype" for v in (first, second)):
        return None
    same = all(v.same_as(call.args[2]) for v in (condition.args[0], first.args[0]))
    numbers = [read_scalar(v) for v in (condition.args[1], second.args[0])]
    if not same or numbers != [128, 256] or operator_name(low_byte) != "relax.bitwise_and":
        return None
    return low_byte.args[0] if read_scalar(low_byte.args[1]) == 255 else None


QUOTIENT_STEPS = {
    "relax.astype": apply_cast,
    "relax.divide": apply_divide,
    "relax.floor_divide": apply_floor_divide,
    "relax.multiply": apply_multiply,
    "relax.floor": apply_floor,
    "relax.clip": apply_clip,
    "relax.maximum": apply_clip,
    "relax.minimum": apply_clip,
    "relax.nn.relu": apply_clip,
    "relax.where": apply_where,
}


def find_exponent(operand: relax.Expr) -> int | None:
    """Return k if every element of an operand is the constant 2**k, or None."""
    mantissa, exponent = math.frexp(read_number(operand) or 0)
    return exponent - 1 if mantissa == 0.5 else None


def narrow_operands(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite each int32 convolution or product of an int8 tensor and constants within int8."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        if name not in (CONVOLUTION, PRODUCT) or dtype_of(call) != "int32":
            return call
        image, weights = (narrow_operand(operand, builder) for operand in call.args)
        if image is None or weights is None:
            return call
        if name == PRODUCT:
            return relax.op.matmul(image, weights, out_dtype="int32")
        how = call.attrs
        return relax.op.nn.conv2d(
            image, weights, how.strides, how.padding, how.dilation, how.groups, how.data_layout,
            how.kernel_layout, how.out_layout, "int32",
        )  # fmt: skip

    return rewrite_calls(module, rewrite)


def narrow_operand(operand: relax.Expr, builder: relax.BlockBuilder) -> relax.Expr | None:
    """Return an int32 operand as int8, if it is a cast or a constant within int8, else None."""
    if isinstance(operand, Constant):
        array = constant_array(operand)
        fits = INT8_RANGE[0] <= array.min() and array.max() <= INT8_RANGE[1]
        return relax.const(array.astype("int8"), "int8") if fits else None
    made = definition(builder, operand)
    is_cast = operator_name(made) == "relax.astype" and dtype_of(made.args[0]) == "int8"
    return made.args[0] if is_cast else None
