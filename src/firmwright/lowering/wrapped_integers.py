"""Casts that reinterpret a sign are functions of wrapped_integers.h.

TVM 0.27 takes it that a cast keeps the value: of an int32 cast to uint32 it concludes that it was
not negative, and drops a later clamp at a negative bound. It concludes nothing of a call.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm_ffi import structural_map


def replace_sign_casts(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Make a call of every cast between signed and unsigned integers that may change the value.

    A cast to a narrower unsigned type stays: those are of values that were clamped to it.
    """
    return structural_map(function, (tirx.Cast, replace_cast))


def replace_cast(cast: tirx.Cast) -> tirx.Expr:
    before, after = str(cast.value.ty.dtype), str(cast.ty.dtype)
    if not reinterprets(before, after):
        return cast
    return tirx.call_pure_extern(after, f"wrapped_{after}", cast.value)


def reinterprets(before: str, after: str) -> bool:
    if not before.startswith(("int", "uint")) or not after.startswith(("int", "uint")):
        return False
    source, target = np.iinfo(before), np.iinfo(after)
    if source.min < 0 and target.min == 0:
        return target.bits >= source.bits
    return source.min == 0 and target.min < 0 and target.bits <= source.bits
