"""Reads a region as a sum, difference or product of two tensors, and computes all results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from math import prod

import numpy as np
import numpy.typing as npt

from firmwright.ir.chains import skip_reshapes
from firmwright.ir.layer import Addition, Array, Pair, Product, WrappedSum
from firmwright.ir.nodes import Function
from firmwright.ir.relax import dtype_of, list_bindings, operator_name, static_shape
from firmwright.lowering.integer_layers import find_quantized_call, read_bytes
from firmwright.lowering.kernels.elementwise import HEADROOM_BITS
from firmwright.lowering.kernels.fixed_point import (
    rounding_multiply_high,
    rounding_shift_right,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor

LARGEST_TERM = 2**30
"""The limit for terms of a sum, which keeps every sum within 32 bits."""

SIGNS = {"relax.add": (1, 1), "relax.subtract": (1, -1)}


def read_pair(function: Function, rounding: str) -> Pair | None:
    """Return the sum, difference or product that a function computes, or None for other functions.

    ``rounding`` is the recipe's rounding, "tflite" or "onnx".
    """
    quantized_call = find_quantized_call(function, rounding, 2, (*SIGNS, "relax.multiply"))
    if quantized_call is None:
        return None
    definitions, call, params = quantized_call
    name = operator_name(call)
    terms = [t for a in call.args if (t := read_bytes(a, definitions)) is not None]
    parameters = [skip_reshapes(t.data, definitions) for t in terms]
    if len(terms) < 2 or set(parameters) != set(function.params):
        return None
    # The order of the region's inputs and the order of the operands may differ.
    ordered = sorted(
        zip(parameters, terms, SIGNS.get(name, (1, 1)), strict=True),
        key=lambda item: list(function.params).index(item[0]),
    )
    _, terms, signs = (list(column) for column in zip(*ordered, strict=True))
    shape = static_shape(call)
    shapes = [static_shape(t.data) for t in terms]
    if name == "relax.multiply":
        return make_product(terms, params, shapes, rounding) if shape in shapes else None
    if any(other != shape for other in shapes):
        return None
    return make_addition(terms, params, prod(shape), rounding, signs)


def make_addition(
    terms: Sequence[QuantizedTensor],
    params: OutputQuantParams,
    elements: int,
    rounding: str,
    signs: Sequence[int] = (1, 1),
) -> Addition | None:
    """Return the sum of two tensors with signs, or None if the arithmetic might exceed 32 bits."""
    add = add_in_float32 if rounding == "onnx" else add_in_fixed_point
    steps = add(terms, params, signs)
    if steps is None:
        return None
    scales = [
        sign * float(t.scale[0]) / float(params.scale) for t, sign in zip(terms, signs, strict=True)
    ]
    return Addition(
        elements=elements,
        input_dtypes=(dtype_of(terms[0].data), dtype_of(terms[1].data)),
        output_dtype=params.dtype,
        results=np.clip(steps + params.zero_point, params.low, params.high),
        low=params.low,
        high=params.high,
        factors=(scales[0], scales[1]),
    )


def make_product(
    terms: Sequence[QuantizedTensor],
    params: OutputQuantParams,
    shapes: Sequence[tuple[int, ...]],
    rounding: str,
) -> Product | None:
    """Return the product of two tensors, one of which may be repeated.

    The result is None if the shapes do not match, or if the arithmetic might exceed 32 bits.
    """
    small = 0 if prod(shapes[0]) < prod(shapes[1]) else 1
    neighbors = count_neighbors(shapes[small], shapes[1 - small])
    multiply = multiply_in_float32 if rounding == "onnx" else multiply_in_fixed_point
    steps = multiply(terms, params) if neighbors else None
    if steps is None:
        return None
    scale = np.float32(terms[0].scale[0]) * np.float32(terms[1].scale[0]) / params.scale
    return Product(
        elements=prod(shapes[1 - small]),
        input_dtypes=(dtype_of(terms[0].data), dtype_of(terms[1].data)),
        output_dtype=params.dtype,
        results=np.clip(steps + params.zero_point, params.low, params.high),
        low=params.low,
        high=params.high,
        small=small,
        channels=prod(shapes[small]),
        neighbors=neighbors,
        zero_points=(int(terms[0].zero_point[0]), int(terms[1].zero_point[0])),
        factor=float(scale),
    )


def count_neighbors(small: tuple[int, ...], large: tuple[int, ...]) -> int:
    """Return the number of adjacent elements of a tensor that one element of another multiplies.

    The result is 0 if broadcasting repeats the small tensor along other axes than the first and
    the last axes.
    """
    rank = max(len(small), len(large))
    aligned = [(*(1,) * (rank - len(shape)), *shape) for shape in (small, large)]
    axes = [(s, n) for s, n in zip(*aligned, strict=True) if n > 1]
    neighbors = 1
    while axes and axes[-1][0] == 1:
        neighbors *= axes.pop()[1]
    kept = dropwhile(lambda axis: axis[0] == 1, axes)
    return neighbors if all(s == n for s, n in kept) else 0


def list_values(term: QuantizedTensor) -> npt.NDArray[np.int64]:
    """Return all values of a tensor's type, minus the zero point."""
    limits = np.iinfo(dtype_of(term.data))
    return np.arange(limits.min, limits.max + 1) - int(term.zero_point[0])


def list_reals(term: QuantizedTensor) -> npt.NDArray[np.float32]:
    return list_values(term).astype("float32") * np.float32(term.scale[0])


def divide(real: npt.NDArray[np.float32], params: OutputQuantParams) -> Array:
    """Return float32 numbers as whole steps of the output, rounded like in ONNX."""
    # These bounds are far beyond every result, so the clip does not change results.
    quotient = np.clip(real / np.float32(params.scale), -(2.0**20), 2.0**20)
    steps: Array = np.rint(quotient).astype("int64")
    return steps


def add_in_float32(
    terms: Sequence[QuantizedTensor], params: OutputQuantParams, signs: Sequence[int]
) -> Array:
    """Add and divide like the ONNX graph, and round each result to float32."""
    left, right = (list_reals(t) * np.float32(sign) for t, sign in zip(terms, signs, strict=True))
    return divide(left[:, None] + right[None], params)


def multiply_in_float32(terms: Sequence[QuantizedTensor], params: OutputQuantParams) -> Array:
    """Multiply and divide like the ONNX graph, and round each result to float32."""
    left, right = (list_reals(t) for t in terms)
    return divide(left[:, None] * right[None], params)


def add_in_fixed_point(
    terms: Sequence[QuantizedTensor], params: OutputQuantParams, signs: Sequence[int]
) -> Array | None:
    """Add like TFLite's kernel, or return None if the arithmetic might exceed 32 bits.

    Source: tensorflow/lite/kernels/add.cc (Prepare) and internal/reference/integer_ops/add.h.
    """
    headroom = HEADROOM_BITS[1]
    common = 2 * max(float(t.scale[0]) for t in terms)
    scaled = [
        sign * scale_steps(list_values(t) << headroom, float(t.scale[0]) / common)
        for t, sign in zip(terms, signs, strict=True)
    ]
    total = scaled[0][:, None] + scaled[1][None]
    unit = common / (2**headroom * float(params.scale))
    if np.abs(total).max() >= LARGEST_TERM or unit >= 1:
        return None
    return scale_steps(total, unit)


def multiply_in_fixed_point(
    terms: Sequence[QuantizedTensor], params: OutputQuantParams
) -> Array | None:
    """Multiply like TFLite's kernel, or return None if the factor is 1 or more.

    Source: tensorflow/lite/kernels/mul.cc (Prepare) and internal/reference/integer_ops/mul.h.
    """
    left, right = (list_values(t) for t in terms)
    factor = float(np.float32(terms[0].scale[0]) * np.float32(terms[1].scale[0]) / params.scale)
    return None if factor >= 1 else scale_steps(left[:, None] * right[None], factor)


def scale_steps(values: Array, factor: float) -> Array:
    """Multiply integers by a factor below one, and round twice like TFLite's kernels."""
    fixed = to_fixed_point(np.array([factor]))
    products = rounding_multiply_high(values, int(fixed.mantissa[0]))
    return rounding_shift_right(products, -int(fixed.shift[0]))


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
