"""Replaces casts that reinterpret the sign bit with functions of wrapped_integers.h.

TVM 0.27 assumes that a cast keeps the value. From a cast of an int32 to uint32, TVM concludes that
the int32 is not negative. Then TVM removes a later clamp at a negative bound. TVM draws no
conclusion from a call.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm_ffi import structural_map


def replace_sign_casts(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace casts that may change values between signed and unsigned integers with calls.

    A cast to a narrower unsigned type stays, because its values were clamped to that type.
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
