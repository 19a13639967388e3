"""Reads a region as int32 sums of products of bytes, with an optional bias.

Sums of int32 wrap, so the addition runs in uint32 between two casts. A layer whose sums fit 31 bits
does not need casts.
"""

from __future__ import annotations

from math import prod

import numpy as np

from firmwright.ir.chains import BYTES, PRODUCT, Definitions, list_definitions, split_addition
from firmwright.ir.layer import Array, LayerKind, Sums, WrappedSum
from firmwright.ir.nodes import Expr, Function
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    list_bindings,
    operator_name,
    static_shape,
)
from firmwright.lowering.integer_layers import describe_product, reads_parameter
from firmwright.lowering.pairs import SIGNS

WORDS = ("int32", "uint32")


def read_sums(function: Function) -> Sums | None:
    """Return the sums that a region's function computes, or None for other functions."""
    results = function.body.body.fields
    if len(function.params) != 1 or len(results) != 1 or dtype_of(results[0]) != "int32":
        return None
    definitions = list_definitions(function)

    def read_bias(value: Expr) -> Array | None:
        stored = skip_casts(value, definitions)
        return constant_array(stored) if isinstance(stored, Constant) else None

    sums, bias = split_addition(skip_casts(results[0], definitions), definitions, read_bias)
    anchor = definitions.get(skip_casts(sums, definitions))
    if anchor is None or operator_name(anchor) != PRODUCT or dtype_of(anchor) != "int32":
        return None
    data, weights = anchor.args[0], skip_casts(anchor.args[1], definitions)
    bytes_alone = dtype_of(data) in BYTES and dtype_of(weights) == "int8"
    if not bytes_alone or not isinstance(weights, Constant):
        return None
    if not reads_parameter(data, function.params[0], definitions):
        return None
    linear = describe_product(anchor, constant_array(weights).astype("int64"))
    biases = np.zeros(1, "int64") if bias is None else bias.astype("int64").reshape(-1)
    if linear is None or biases.size not in (1, linear.out_channels):
        return None
    return Sums(
        **linear.list_sums(kind=LayerKind.SUMS, bias=np.resize(biases, linear.out_channels)),
        input_dtype=dtype_of(data),
        input_zero_point=0,
    )


def skip_casts(value: Expr, definitions: Definitions) -> Expr:
    """Return the 32-bit words before all casts between signed and unsigned types."""
    while (
        (call := definitions.get(value)) is not None
        and operator_name(call) == "relax.astype"
        and dtype_of(call) in WORDS
        and dtype_of(call.args[0]) in WORDS
    ):
        value = call.args[0]
    bound = definitions.get(value)
    return bound if isinstance(bound, Constant) else value


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
