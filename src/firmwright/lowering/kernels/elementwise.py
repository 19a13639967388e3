"""Computes sums, products and comparisons of two tensors like TFLite's reference kernels.

The tensors are 8-bit. Some of the functions also support 16-bit tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from firmwright.ir.relax import dtype_of, operator_name, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.fixed_point import (
    Integer,
    apply_scale,
    call_fixed_point,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import OutputQuantParams, QuantizedTensor
from firmwright.lowering.kernels.requantization import immediates, to_storage

HEADROOM_BITS = {1: 20, 2: 15}
"""The left shift of both terms of a sum before the conversion to a common scale.

The keys are the numbers of bytes per element.
"""

COMPARISON_HEADROOM_BITS = 8
"""The left shift of both sides before the conversion to units of 1/256."""

COMPARISONS: dict[str, Callable[[Integer, Integer], Integer]] = {
    "relax.equal": tirx.EQ,
    "relax.not_equal": tirx.NE,
    "relax.less": tirx.LT,
    "relax.less_equal": tirx.LE,
    "relax.greater": tirx.GT,
    "relax.greater_equal": tirx.GE,
}


def add_or_subtract(
    builder: RegionBuilder,
    call: tvm.ir.Call,
    params: OutputQuantParams,
    *,
    combine: Callable[[Integer, Integer], Integer],
) -> relax.Expr | None:
    """Convert both terms to a common scale, combine them, and scale the result.

    The common scale is twice the larger scale. A left shift before the conversion keeps more
    digits. Source: tensorflow/lite/kernels/add.cc (Prepare) and
    internal/reference/integer_ops/add.h.
    """
    operands = find_operands(builder, call, 8, 16)
    if operands is None or has_power_of_two_scales(operands, params):
        return None
    headroom = HEADROOM_BITS[ELEMENT_BYTES[dtype_of(operands[0].data)]]
    common = 2 * max(float(o.scale[0]) for o in operands)
    output = immediates(to_fixed_point(np.array([common / (2**headroom * float(params.scale))])))
    bound = sum(o.largest for o in operands) << (headroom - 1)

    def element(indices: Any, *sides: te.Tensor) -> Integer:
        total = combine(*scale_terms(sides, operands, indices, common, headroom))
        return to_storage(apply_scale(total, *output, largest=bound), params)

    return emit_binary(builder, "add", call, element, operands, "sum")


def multiply(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Multiply the integers, and scale the product by a float32 quotient of the scales.

    Source: tensorflow/lite/kernels/mul.cc (Prepare) and internal/reference/integer_ops/mul.h.
    """
    operands = find_operands(builder, call, 8, 16)
    if operands is None:
        return None
    scales = [np.float32(o.scale[0]) for o in operands]
    factors = to_fixed_point(np.array([scales[0] * scales[1] / params.scale], "float64"))
    largest = operands[0].largest * operands[1].largest << int(factors.left_shift[0])

    def element(indices: Any, *sides: te.Tensor) -> Integer:
        first, second = (read_centered(*s, indices) for s in zip(sides, operands, strict=True))
        return to_storage(
            apply_scale(first * second, *immediates(factors), largest=largest), params
        )

    return emit_binary(builder, "multiply", call, element, operands, "product")


def squared_difference(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Convert both terms to a common scale, square the difference, and scale the square.

    The common scale is twice the larger scale. A left shift of 7 bits before the conversion keeps
    more digits. Source: tensorflow/lite/kernels/squared_difference.cc.
    """
    difference = builder.find_call(call.args[0], "relax.subtract")
    operands = None if difference is None else find_operands(builder, difference, 8)
    if operands is None:
        return None
    headroom = 7
    common = 2 * max(float(o.scale[0]) for o in operands)
    unit = common * common / (2 ** (2 * headroom) * float(params.scale))
    output = to_fixed_point(np.array([unit]))
    largest = (2**9 << (headroom - 1)) ** 2 << int(output.left_shift[0])

    def element(indices: Any, *sides: te.Tensor) -> Integer:
        first, second = scale_terms(sides, operands, indices, common, headroom)
        square = call_fixed_point("fixed_square", first - second)
        return to_storage(apply_scale(square, *immediates(output), largest=largest), params)

    return emit_binary(builder, "squared_difference", call, element, operands)


def prelu(
    builder: RegionBuilder, call: tvm.ir.Call, params: OutputQuantParams
) -> relax.Expr | None:
    """Scale positive values by one factor, and products with slopes by another factor.

    Negative values are multiplied by slopes. Source: tensorflow/lite/kernels/activations.cc
    (PreluPrepare), internal/reference/prelu.h.
    """
    operands = find_operands(builder, call, 8)
    if operands is None:
        return None
    source, slopes = operands
    scale = np.float32(source.scale[0])
    whole = to_fixed_point(np.array([scale / params.scale], "float64"))
    sloped = to_fixed_point(
        np.array([scale * np.float32(slopes.scale[0]) / params.scale], "float64")
    )
    axis = int(call.attrs.axis) % len(static_shape(call))

    def element(indices: Any, data: te.Tensor, slopes_data: te.Tensor) -> Integer:
        value = read_centered(data, source, indices)
        slope = read_centered(slopes_data, slopes, (indices[axis],))
        largest = source.largest << int(whole.left_shift[0])
        positive = apply_scale(value, *immediates(whole), largest=largest)
        largest = source.largest * slopes.largest << int(sloped.left_shift[0])
        negative = apply_scale(value * slope, *immediates(sloped), largest=largest)
        return to_storage(te.if_then_else(value >= 0, positive, negative), params)

    return emit_binary(builder, "prelu", call, element, operands)


def compare(builder: RegionBuilder, call: tvm.ir.Call) -> relax.Expr | None:
    """Convert both sides to one unit, round them, and compare the integers.

    Close values of fine scales become equal. Source: tensorflow/lite/kernels/comparisons.cc and
    internal/reference/comparisons.h (ComparisonWithScaling). For scales of 1 and more, TFLite's
    results are meaningless, but the results of this function are correct.
    """
    operands = find_operands(builder, call, 8)
    if operands is None:
        return None

    def element(indices: Any, *sides: te.Tensor) -> Integer:
        terms = scale_terms(sides, operands, indices, 1.0, COMPARISON_HEADROOM_BITS)
        return COMPARISONS[operator_name(call)](*terms)

    return emit_binary(builder, "compare", call, element, operands, "compared")


def emit_binary(
    builder: RegionBuilder,
    name: str,
    call: tvm.ir.Call,
    element: Callable[..., Integer],
    operands: list[QuantizedTensor],
    result: str = "",
) -> relax.Expr:
    data = (o.data for o in operands)
    shape = static_shape(call)
    return builder.emit_elements(name, element, *data, result=result or name, shape=shape)


def scale_terms(
    sides: tuple[te.Tensor, ...],
    operands: list[QuantizedTensor],
    indices: tuple[Any, ...],
    unit: float,
    headroom: int,
) -> list[Integer]:
    """Return both elements in units of a common scale, shifted left by ``headroom`` bits."""
    terms = []
    for data, operand in zip(sides, operands, strict=True):
        factors = to_fixed_point(operand.scale / unit)
        shifted = read_centered(data, operand, indices) * 2**headroom
        largest = operand.largest << headroom + int(factors.left_shift[0])
        terms.append(apply_scale(shifted, *immediates(factors), largest=largest))
    return terms


def read_centered(data: te.Tensor, operand: QuantizedTensor, indices: tuple[Any, ...]) -> Integer:
    return read_broadcast(data, indices).astype("int32") - int(operand.zero_point[0])


def find_operands(
    builder: RegionBuilder, call: tvm.ir.Call, *widths: int
) -> list[QuantizedTensor] | None:
    """Return both operands if they are integers of one of these widths in bits, else None."""
    values = [builder.find_integers(a, *widths) for a in call.args]
    operands = [v for v in values if v is not None]
    same = len(operands) == len(values) and operands[0].width == operands[-1].width
    return operands if same else None


def has_power_of_two_scales(operands: list[QuantizedTensor], params: OutputQuantParams) -> bool:
    """Return whether TFLite uses the kernel for 16-bit sums that only shifts."""
    scales = [float(params.scale), *(float(o.scale[0]) for o in operands)]
    return operands[0].width == 16 and all(math.frexp(s)[0] == 0.5 for s in scales)


def read_broadcast(data: te.Tensor, indices: tuple[Any, ...]) -> Integer:
    trailing = indices[len(indices) - len(data.shape) :]
    return data(*(0 if int(d) == 1 else i for d, i in zip(data.shape, trailing, strict=True)))
