"""Sums, differences and products of two 8-bit tensors, as TFLite's reference kernels do them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import dtype_of, static_shape
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
"""Bits that both terms of a sum are shifted left before they are scaled to a common grid.

By the number of bytes of an element.
"""


def add(builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams) -> relax.Expr | None:
    return add_or_subtract(builder, call, grid, lambda left, right: left + right)


def subtract(
    builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams
) -> relax.Expr | None:
    return add_or_subtract(builder, call, grid, lambda left, right: left - right)


def add_or_subtract(
    builder: RegionBuilder,
    call: tvm.ir.Call,
    grid: OutputQuantParams,
    combine: Callable[[Integer, Integer], Integer],
) -> relax.Expr | None:
    """Scale both terms to twice the larger scale with bits of headroom, then to the grid.

    Source: tensorflow/lite/kernels/add.cc (Prepare) and internal/reference/integer_ops/add.h.
    """
    operands = find_operands(builder, call, 8, 16)
    if operands is None or has_power_of_two_scales(operands, grid):
        return None
    headroom = HEADROOM_BITS[ELEMENT_BYTES[dtype_of(operands[0].data)]]
    common = 2 * max(float(o.scale[0]) for o in operands)
    terms = [immediates(to_fixed_point(o.scale / common)) for o in operands]
    output = immediates(to_fixed_point(np.array([common / (2**headroom * float(grid.scale))])))

    bound = sum(o.largest for o in operands) << (headroom - 1)

    def term(data: te.Tensor, position: int, indices: tuple[Any, ...]) -> Integer:
        operand = operands[position]
        shifted = read_centered(data, operand, indices) * 2**headroom
        return apply_scale(shifted, *terms[position], largest=operand.largest << headroom)

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            total = combine(term(left, 0, indices), term(right, 1, indices))
            return to_storage(apply_scale(total, *output, largest=bound), grid)

        return te.compute(static_shape(call), element, name="sum")

    return builder.emit_te("add", compute, *(o.data for o in operands))


def multiply(
    builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams
) -> relax.Expr | None:
    """Multiply the integers and scale the product; the scale's terms are in single precision.

    Source: tensorflow/lite/kernels/mul.cc (Prepare) and internal/reference/integer_ops/mul.h.
    """
    operands = find_operands(builder, call, 8, 16)
    if operands is None:
        return None
    scales = [np.float32(o.scale[0]) for o in operands]
    factors = to_fixed_point(np.array([scales[0] * scales[1] / grid.scale], "float64"))
    largest = operands[0].largest * operands[1].largest << int(factors.left_shift[0])

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            first, second = (
                read_centered(data, operand, indices)
                for data, operand in zip((left, right), operands, strict=True)
            )
            product = first * second
            return to_storage(apply_scale(product, *immediates(factors), largest=largest), grid)

        return te.compute(static_shape(call), element, name="product")

    return builder.emit_te("multiply", compute, *(o.data for o in operands))


def squared_difference(
    builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams
) -> relax.Expr | None:
    """Scale both terms to twice the larger scale with 7 bits of headroom, square, scale.

    Source: tensorflow/lite/kernels/squared_difference.cc.
    """
    difference = builder.find_call(call.args[0], "relax.subtract")
    operands = None if difference is None else find_operands(builder, difference, 8)
    if operands is None:
        return None
    headroom = 7
    common = 2 * max(float(o.scale[0]) for o in operands)
    terms = [immediates(to_fixed_point(o.scale / common)) for o in operands]
    unit = common * common / (2 ** (2 * headroom) * float(grid.scale))
    output = to_fixed_point(np.array([unit]))
    largest = (2**9 << (headroom - 1)) ** 2 << int(output.left_shift[0])

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            first, second = (
                apply_scale(
                    read_centered(data, operand, indices) * 2**headroom, *factors,
                    largest=operand.largest << headroom,
                )
                for data, operand, factors in zip((left, right), operands, terms, strict=True)
            )  # fmt: skip
            return to_storage(
                apply_scale(
                    call_fixed_point("fixed_square", first - second),
                    *immediates(output),
                    largest=largest,
                ),
                grid,
            )

        return te.compute(static_shape(call), element, name="squared_difference")

    return builder.emit_te("squared_difference", compute, *(o.data for o in operands))


def prelu(builder: RegionBuilder, call: tvm.ir.Call, grid: OutputQuantParams) -> relax.Expr | None:
    """Scale positive values by one factor, the products of negative ones with slopes by another.

    Source: tensorflow/lite/kernels/activations.cc (PreluPrepare), internal/reference/prelu.h.
    """
    operands = find_operands(builder, call, 8)
    if operands is None:
        return None
    source, slopes = operands
    scale = np.float32(source.scale[0])
    whole = to_fixed_point(np.array([scale / grid.scale], "float64"))
    sloped = to_fixed_point(np.array([scale * np.float32(slopes.scale[0]) / grid.scale], "float64"))
    axis = int(call.attrs.axis) % len(static_shape(call))

    def compute(data: te.Tensor, slopes_data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            value = read_centered(data, source, indices)
            slope = read_centered(slopes_data, slopes, (indices[axis],))
            positive = apply_scale(
                value, *immediates(whole), largest=source.largest << int(whole.left_shift[0])
            )
            largest = source.largest * slopes.largest << int(sloped.left_shift[0])
            negative = apply_scale(value * slope, *immediates(sloped), largest=largest)
            return to_storage(te.if_then_else(value >= 0, positive, negative), grid)

        return te.compute(static_shape(call), element, name="prelu")

    return builder.emit_te("prelu", compute, source.data, slopes.data)


def read_centered(data: te.Tensor, operand: QuantizedTensor, indices: tuple[Any, ...]) -> Integer:
    return read_broadcast(data, indices).astype("int32") - int(operand.zero_point[0])


def find_operands(
    builder: RegionBuilder, call: tvm.ir.Call, *widths: int
) -> list[QuantizedTensor] | None:
    """Return both operands if they are integers of one of these widths in bits."""
    values = [builder.find_integers(a, *widths) for a in call.args]
    operands = [v for v in values if v is not None]
    same = len(operands) == len(values) and operands[0].width == operands[-1].width
    return operands if same else None


def has_power_of_two_scales(operands: list[QuantizedTensor], grid: OutputQuantParams) -> bool:
    """Tell the case of 16-bit sums that TFLite has another kernel for, one that only shifts."""
    scales = [float(grid.scale), *(float(o.scale[0]) for o in operands)]
    return operands[0].width == 16 and all(math.frexp(s)[0] == 0.5 for s in scales)


def read_broadcast(data: te.Tensor, indices: tuple[Any, ...]) -> Integer:
    """Read the element that broadcasting puts at a place of the result."""
    own = indices[len(indices) - len(data.shape) :]
    return data(*(0 if int(d) == 1 else i for d, i in zip(data.shape, own, strict=True)))
