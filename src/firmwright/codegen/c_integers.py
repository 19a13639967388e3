"""Integers and truth values whose C would differ from TIR, or make compilers warn."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tirx
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_equal, structural_map

SHORT_TYPES = frozenset({"int8", "uint8", "int16", "uint16"})
"""C computes with these as int."""

WRAPPING = (tirx.Add, tirx.Sub, tirx.Mul, prim.LShift)
ORDERS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
HOLD_FOR_EQUALS = (tirx.LE, tirx.GE, tirx.EQ)


def keep_types(module: tvm.IRModule) -> tvm.IRModule:
    """Let short integers wrap, compare with zero for truth, and decide what is always so."""
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
    """Let sums, products, shifts and the like of short integers wrap; C computes them as int.

    Where int has 16 bits that could overflow, so they are computed as uint32.
    """
    dtype = str(value.ty.dtype)
    if dtype not in SHORT_TYPES:
        return value
    wide = type(value)(*(tirx.Cast("uint32", side) for side in (value.a, value.b)))
    return narrow(wide, dtype)


def wrap_complement(value: prim.BitwiseNot | prim.BitwiseXor) -> tirx.Expr:
    """Let a function drop the bits that C's int has more, where short unsigned ones change all.

    Of a cast in its place gcc takes it that it changes nothing, and warns.
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
    """Say what a cast to bool means; of a product in its place compilers think it a mistake."""
    before, after = str(cast.value.ty.dtype), str(cast.ty.dtype)
    if after != "bool" or before == "bool":
        return cast
    return decide(tirx.NE(cast.value, tirx.const(0, before)))


def decide(comparison: tirx.LT | tirx.LE | tirx.GT | tirx.GE | tirx.EQ | tirx.NE) -> tirx.Expr:
    """Return a constant for a comparison whose result no integer of these types changes."""
    one, other = comparison.a, comparison.b
    if not str(one.ty.dtype).startswith(("int", "uint")):
        return comparison
    if structural_equal(one, other):
        return tirx.const(isinstance(comparison, HOLD_FOR_EQUALS), "bool")
    if isinstance(comparison, (tirx.EQ, tirx.NE)):
        differ = is_less(one, other) or is_less(other, one)
        return tirx.const(isinstance(comparison, tirx.NE), "bool") if differ else comparison
    # a > b says b < a; a <= b and a >= b say that b < a and a < b do not hold.
    if isinstance(comparison, (tirx.GT, tirx.LE)):
        one, other = other, one
    known = is_less(one, other)
    denies = isinstance(comparison, (tirx.LE, tirx.GE))
    return comparison if known is None else tirx.const(known != denies, "bool")


def is_less(one: tirx.Expr, other: tirx.Expr) -> bool | None:
    """Tell whether one integer is always, or never, less than another; None where it depends."""
    (low, high), (least, most) = find_range(one), find_range(other)
    if high < least:
        return True
    return False if low >= most else None


def find_range(value: tirx.Expr) -> tuple[int, int]:
    """Return the least and greatest number that an integer can be, as its types tell."""
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
    """Return one of two values if they are the same, or if their types tell which one it is."""
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
