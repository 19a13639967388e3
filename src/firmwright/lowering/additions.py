"""Reads a region as the sum of two quantized tensors, and computes it for every pair of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
from tvm import relax

from firmwright.ir.layer import Addition, Array
from firmwright.ir.relax import dtype_of, operator_name, static_shape
from firmwright.lowering.kernels.elementwise import HEADROOM_BITS
from firmwright.lowering.kernels.fixed_point import (
    rounding_multiply_high,
    rounding_shift_right,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.layers import BYTES, find_quantized, read_quantized

LARGEST_TERM = 2**30
"""Terms of a sum stay below it, so that no sum leaves 32 bits."""


def read_addition(function: relax.Function, rounding: str) -> Addition | None:
    """Return the addition that a region's function is; None for anything else.

    ``rounding`` is that of the recipe, "tflite" or "onnx".
    """
    found = find_quantized(function, rounding, inputs=2)
    if found is None:
        return None
    definitions, argument, grid = found
    call = definitions.get(argument)
    if call is None or operator_name(call) != "relax.add":
        return None
    read = [read_quantized(a, definitions) for a in call.args]
    terms = [t for t in read if t is not None and t.is_per_tensor and dtype_of(t.data) in BYTES]
    if len(terms) < 2 or {t.data for t in terms} != set(function.params):
        return None
    shape = static_shape(function.body.body.fields[0])
    if any(static_shape(t.data) != shape for t in terms):
        return None
    # Both sums are symmetric: the region's inputs may stand in their own order.
    terms.sort(key=lambda term: list(function.params).index(term.data))
    return make_addition(terms, grid, prod(shape), rounding)


def make_addition(
    terms: Sequence[QuantizedTensor], grid: OutputQuantParams, elements: int, rounding: str
) -> Addition | None:
    """Return the addition of two tensors; None where its arithmetic might leave 32 bits."""
    add = add_in_float32 if rounding == "onnx" else add_in_fixed_point
    steps = add(terms, grid)
    if steps is None:
        return None
    scales = [float(t.scale[0]) / float(grid.scale) for t in terms]
    return Addition(
        elements=elements,
        input_dtypes=(dtype_of(terms[0].data), dtype_of(terms[1].data)),
        output_dtype=grid.dtype,
        results=np.clip(steps + grid.zero_point, grid.low, grid.high),
        factors=(scales[0], scales[1]),
        low=grid.low,
        high=grid.high,
    )


def list_values(term: QuantizedTensor) -> npt.NDArray[np.int64]:
    """Return all bytes of a tensor's type, less its zero point."""
    limits = np.iinfo(dtype_of(term.data))
    return np.arange(limits.min, limits.max + 1) - int(term.zero_point[0])


def add_in_float32(terms: Sequence[QuantizedTensor], grid: OutputQuantParams) -> Array:
    """Add and divide as ONNX's graph is written: each result is rounded to float32."""
    left, right = (list_values(t).astype("float32") * np.float32(t.scale[0]) for t in terms)
    quotient = (left[:, None] + right[None]) / np.float32(grid.scale)
    # Far beyond every result nothing is lost by a bound.
    steps: Array = np.rint(np.clip(quotient, -(2.0**20), 2.0**20)).astype("int64")
    return steps


def add_in_fixed_point(terms: Sequence[QuantizedTensor], grid: OutputQuantParams) -> Array | None:
    """Add as TFLite's kernel; None where its arithmetic might leave 32 bits.

    Source: tensorflow/lite/kernels/add.cc (Prepare) and internal/reference/integer_ops/add.h.
    """
    headroom = HEADROOM_BITS[1]
    common = 2 * max(float(t.scale[0]) for t in terms)
    scaled = [scale_steps(list_values(t) << headroom, float(t.scale[0]) / common) for t in terms]
    total = scaled[0][:, None] + scaled[1][None]
    unit = common / (2**headroom * float(grid.scale))
    if np.abs(total).max() >= LARGEST_TERM or unit >= 1:
        return None
    return scale_steps(total, unit)


def scale_steps(values: Array, factor: float) -> Array:
    """Multiply integers by a factor below one, rounded twice as TFLite's kernels round."""
    fixed = to_fixed_point(np.array([factor]))
    products = rounding_multiply_high(values, int(fixed.mantissa[0]))
    return rounding_shift_right(products, -int(fixed.shift[0]))
