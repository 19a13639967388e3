"""Rewrites integers and Booleans whose C would differ from TIR or cause compiler warnings."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_equal, structural_map

SHORT_TYPES = frozenset({"int8", "uint8", "int16", "uint16"})
"""The types that C computes as int."""

WRAPPING = (tirx.Add, tirx.Sub, tirx.Mul, prim.LShift)
ORDERS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
HOLD_FOR_EQUALS = (tirx.LE, tirx.GE, tirx.EQ)


def keep_types(module: tvm.IRModule) -> tvm.IRModule:
    """Wrap short integers, compare casts to bool with zero, and evaluate constant comparisons."""
    rules = (
        (WRAPPING, wrap_short_integers),
        ((prim.BitwiseNot, prim.BitwiseXor), wrap_complement),
        (tirx.Cast, compare_with_zero),
        (ORDERS, decide),
        ((tirx.Max, tirx.Min), take_either),
    )
    functions = {
        name: function.with_body(structural_map(function.body, rules))
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def wrap_short_integers(value: tirx.Expr) -> tirx.Expr:
    """Wrap sums, products and left shifts of short integers, because C computes them as int.

    The C computes in uint32, because an int of 16 bits could overflow.
    """
    dtype = str(value.ty.dtype)
    if dtype not in SHORT_TYPES:
        return value
    wide = type(value)(*(tirx.Cast("uint32", side) for side in (value.a, value.b)))
    return narrow(wide, dtype)


def wrap_complement(value: prim.BitwiseNot | prim.BitwiseXor) -> tirx.Expr:
    """Drop the additional bits of C's int after a complement of a short unsigned integer.

    A function call drops the bits, because gcc warns about a cast without an effect.
    """
    dtype = str(value.ty.dtype)
    if dtype not in SHORT_TYPES or not dtype.startswith("uint"):
        return value
    sides = (value.a,) if isinstance(value, prim.BitwiseNot) else (value.a, value.b)
    changed = [side for side in sides if not is_all_ones(side)]
    if len(changed) != 1:
        return value
    flipped = prim.BitwiseNot(tirx.Cast("int64", changed[0]))
    return tirx.call_pure_extern(dtype, f"wrapped_{dtype}", flipped)


def is_all_ones(value: tirx.Expr) -> bool:
    is_number = isinstance(value, tirx.IntImm)
    return is_number and value.value == np.iinfo(str(value.ty.dtype)).max


def narrow(wide: tirx.Expr, dtype: str) -> tirx.Expr:
    if dtype.startswith("uint"):
        return tirx.Cast(dtype, wide)
    return tirx.call_pure_extern(dtype, f"wrapped_{dtype}", wide)


def compare_with_zero(cast: tirx.Cast) -> tirx.Expr:
    """Return a cast to bool as a comparison with 0.

    Compilers warn about a product in a Boolean context.
    """
    before, after = str(cast.value.ty.dtype), str(cast.ty.dtype)
    if after != "bool" or before == "bool":
        return cast
    return decide(tirx.NE(cast.value, tirx.const(0, before)))


def decide(comparison: tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ | tirx.NE) -> tirx.Expr:
    """Return a constant if the types of a comparison of integers fix its result."""
    one, other = comparison.a, comparison.b
    if not str(one.ty.dtype).startswith(("int", "uint")):
        return comparison
    if structural_equal(one, other):
        return tirx.const(isinstance(comparison, HOLD_FOR_EQUALS), "bool")
    if isinstance(comparison, (tirx.EQ, tirx.NE)):
        differ = is_less(one, other) or is_less(other, one)
        return tirx.const(isinstance(comparison, tirx.NE), "bool") if differ else comparison
    # a > b is b < a. a <= b is not (b < a), and a >= b is not (a < b).
    if isinstance(comparison, (tirx.GT, tirx.LE)):
        one, other = other, one
    known = is_less(one, other)
    denies = isinstance(comparison, (tirx.LE, tirx.GE))
    return comparison if known is None else tirx.const(known != denies, "bool")


def is_less(one: tirx.Expr, other: tirx.Expr) -> bool | None:
    """Return True if the first integer is always less, False if it is never less, else None."""
    (low, high), (least, most) = find_range(one), find_range(other)
    if high < least:
        return True
    return False if low >= most else None


def find_range(value: tirx.Expr) -> tuple[int, int]:
    if isinstance(value, tirx.IntImm):
        return int(value.value), int(value.value)
    dtype = str(value.ty.dtype)
    limits = np.iinfo(dtype) if dtype != "bool" else None
    low, high = (int(limits.min), int(limits.max)) if limits else (0, 1)
    if isinstance(value, tirx.Cast) and str(value.value.ty.dtype).startswith(("int", "uint")):
        least, most = find_range(value.value)
        if low <= least and most <= high:
            return least, most
    return low, high


def take_either(extreme: tirx.Max | tirx.Min) -> tirx.Expr:
    """Return one operand if both are equal or if their types fix the choice."""
    if structural_equal(extreme.a, extreme.b):
        return extreme.a
    if not str(extreme.ty.dtype).startswith(("int", "uint")):
        return extreme
    less, greater = extreme.a, extreme.b
    if isinstance(extreme, tirx.Max):
        less, greater = greater, less
    if is_less(less, greater) is False:
        return extreme.b
    return extreme.a if is_less(greater, less) is False else extreme
