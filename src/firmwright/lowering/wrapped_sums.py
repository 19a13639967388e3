"""Reads a region as a wrapping sum or difference of bytes, and computes all results."""

from __future__ import annotations

from math import prod

import numpy as np

from firmwright.ir.layer import WrappedSum
from firmwright.ir.nodes import Function
from firmwright.ir.relax import dtype_of, list_bindings, operator_name, static_shape
from firmwright.lowering.pairs import SIGNS


def read_wrapped_sum(function: Function) -> WrappedSum | None:
    """Return the sum or difference of two tensors of bytes, or None for other functions.

    The two tensors have the shape of the result.
    """
    bindings = list_bindings(function)
    if len(bindings) != 1 or operator_name(bindings[0].value) not in SIGNS:
        return None
    call, shape = bindings[0].value, static_shape(bindings[0].var)
    if list(call.args) != list(function.params) or dtype_of(call.args[0]) not in ("int8", "uint8"):
        return None
    if any(static_shape(argument) != shape for argument in call.args):
        return None
    _, sign = SIGNS[operator_name(call)]
    return make_wrapped_sum(prod(shape), dtype_of(bindings[0].var), sign)


def make_wrapped_sum(elements: int, dtype: str, sign: int) -> WrappedSum:
    """Return the sum of two tensors of bytes, or the difference if ``sign`` is -1."""
    limits = np.iinfo(dtype)
    values = np.arange(limits.min, limits.max + 1)
    return WrappedSum(
        elements=elements,
        input_dtypes=(dtype, dtype),
        output_dtype=dtype,
        results=(values[:, None] + sign * values[None]).astype(dtype).astype("int64"),
        low=int(limits.min),
        high=int(limits.max),
        sign=sign,
    )
