"""Limits casts of floats to integers, because C does not define them for NaN and large values.

:mod:`firmwright.transforms.undefined_behavior` limits the model's casts before this module runs.
This module limits casts of coordinates that TVM's operators compute. It also limits casts of
integers that a network stores as floats.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

ROUNDED = frozenset(("prim.ceil", "tirx.floor", "tirx.nearbyint", "tirx.round", "tirx.trunc"))


def limit_casts(body: tirx.Stmt) -> tirx.Stmt:
    """Define the results of data-dependent casts of floats, and of products of such casts."""
    return structural_map(body, ((tirx.Cast, limit_cast), (tirx.Mul, wrap_product)))


def wrap_product(product: tirx.Mul) -> tirx.Expr:
    """Multiply two integers from floats in the unsigned type, which wraps around."""
    dtype = str(product.ty.dtype)
    if dtype not in ("int32", "int64") or not all(map(comes_of_floats, (product.a, product.b))):
        return product
    wide = (tirx.Cast(f"u{dtype}", side) for side in (product.a, product.b))
    return tirx.Cast(dtype, tirx.Mul(*wide))


def comes_of_floats(value: tirx.Expr) -> bool:
    matches: list[bool] = []

    def look(cast: tirx.Cast) -> None:
        matches.append("float" in str(cast.value.ty.dtype) and depends_on_data(cast))

    structural_walk(value, (tirx.Cast, look))
    return any(matches)


def limit_cast(cast: tirx.Cast) -> tirx.Expr:
    """Limit a float before a cast to an integer, unless all values of the float fit the integer
    type.

    NaN becomes the largest integer. A coordinate is an expression, not a stored value. Coordinates
    in types of 32 bits or more are limited to half of the range, so that neighboring coordinates do
    not overflow.
    """
    source, target = str(cast.value.ty.dtype), str(cast.ty.dtype)
    if not source.startswith("float") or not target.startswith(("int", "uint")):
        return cast
    limits = np.iinfo(target)
    span = find_span(cast.value)
    if not depends_on_data(cast.value) or span.fits(limits.min, limits.max):
        return cast
    is_stored = isinstance(cast.value, (tvm.ir.TensorLoad, tirx.Min, tirx.Max))
    parts = 1 if is_stored or limits.bits < 32 else 2
    largest = int(np.finfo(source).max)
    low, last = max(int(limits.min) // parts, -largest), min(int(limits.max) // parts, largest)
    high = np.array(last, source)
    if int(high) > last:
        high = np.nextafter(high, np.array(0, source))
    ends = [tirx.const(float(end), source) for end in (low, high)]
    return tirx.Cast(target, tirx.max(tirx.min(cast.value, ends[1]), ends[0]))


class FloatRange(NamedTuple):
    """The minimum and the maximum of a float, and whether the float may be NaN."""

    low: float = -inf
    high: float = inf
    nan: bool = True

    def fits(self, low: int, high: int) -> bool:
        """Return whether all values, rounded toward zero, are from ``low`` to ``high``."""
        return not self.nan and low - 1 < self.low and self.high < high + 1


def find_span(value: tirx.Expr) -> FloatRange:
    """Return the range of a float according to its limits and its rounding.

    In C, a minimum is ``a < b ? a : b``. Its value is b if a or b is NaN.
    """
    if isinstance(value, tirx.FloatImm):
        return FloatRange(value.value, value.value, bool(np.isnan(value.value)))
    if isinstance(value, (tirx.Min, tirx.Max)):
        one, other = find_span(value.a), find_span(value.b)
        pick = min if isinstance(value, tirx.Min) else max
        low, high = pick(one.low, other.low), pick(one.high, other.high)
        if one.nan:
            low, high = min(low, other.low), max(high, other.high)
        return FloatRange(low, high, other.nan)
    if isinstance(value, tirx.Cast) and str(value.value.ty.dtype).startswith(("int", "uint")):
        limits = np.iinfo(str(value.value.ty.dtype))
        return FloatRange(float(limits.min), float(limits.max), False)
    if isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in ROUNDED:
        return round_span(find_span(value.args[0]))
    return FloatRange()


def round_span(span: FloatRange) -> FloatRange:
    low, high = (np.floor(span.low), np.ceil(span.high)) if not span.nan else (-inf, inf)
    return FloatRange(float(low), float(high), span.nan)


def depends_on_data(value: tirx.Expr) -> bool:
    loads: list[bool] = []
    structural_walk(value, (tvm.ir.TensorLoad, lambda _: loads.append(True)))
    return bool(loads)
