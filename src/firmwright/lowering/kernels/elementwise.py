"""Sums, differences and products of two 8-bit tensors, as TFLite's reference kernels do them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.fixed_point import Integer, call, factors_of, scaled
from firmwright.lowering.quantised import Grid, Quantised
from firmwright.lowering.requantization import immediates, stored

if TYPE_CHECKING:
    from firmwright.lowering.integer_arithmetic import IntegerArithmetic

HEADROOM_BITS = {1: 20, 2: 15}
"""Bits that both terms of a sum are shifted left before they are scaled to a common grid.

By the number of bytes of an element.
"""


def add(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    return sum_of_two(region, call, grid, lambda left, right: left + right)


def subtract(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    return sum_of_two(region, call, grid, lambda left, right: left - right)


def sum_of_two(
    region: IntegerArithmetic,
    call: tvm.ir.Call,
    grid: Grid,
    combine: Callable[[Integer, Integer], Integer],
) -> relax.Expr | None:
    """Scale both terms to twice the larger scale with bits of headroom, then to the grid.

    Source: tensorflow/lite/kernels/add.cc (Prepare) and internal/reference/integer_ops/add.h.
    """
    operands = operands_of(region, call)
    if operands is None or powers_of_two(operands, grid):
        return None
    headroom = HEADROOM_BITS[ELEMENT_BYTES[dtype_of(operands[0].data)]]
    common = 2 * max(float(o.scale[0]) for o in operands)
    terms = [immediates(factors_of(o.scale / common)) for o in operands]
    output = immediates(factors_of(np.array([common / (2**headroom * float(grid.scale))])))

    bound = sum(o.largest for o in operands) << (headroom - 1)

    def term(data: te.Tensor, position: int, indices: tuple[Any, ...]) -> Integer:
        centred = element_of(data, indices).astype("int32") - int(operands[position].zero_point[0])
        shifted = centred * 2**headroom
        return scaled(shifted, *terms[position], largest=operands[position].largest << headroom)

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            total = combine(term(left, 0, indices), term(right, 1, indices))
            return stored(scaled(total, *output, largest=bound), grid)

        return te.compute(static_shape(call), element, name="sum")

    return region.emit_te("add", compute, *(o.data for o in operands))


def multiply(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Multiply the integers and scale the product; the scale's terms are in single precision.

    Source: tensorflow/lite/kernels/mul.cc (Prepare) and internal/reference/integer_ops/mul.h.
    """
    operands = operands_of(region, call)
    if operands is None:
        return None
    scales = [np.float32(o.scale[0]) for o in operands]
    factors = factors_of(np.array([scales[0] * scales[1] / grid.scale], "float64"))
    largest = operands[0].largest * operands[1].largest << int(factors.left_shift[0])

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            centred = [
                element_of(data, indices).astype("int32") - int(operand.zero_point[0])
                for data, operand in zip((left, right), operands, strict=True)
            ]
            product = centred[0] * centred[1]
            return stored(scaled(product, *immediates(factors), largest=largest), grid)

        return te.compute(static_shape(call), element, name="product")

    return region.emit_te("multiply", compute, *(o.data for o in operands))


def squared_difference(
    region: IntegerArithmetic, operator: tvm.ir.Call, grid: Grid
) -> relax.Expr | None:
    """Scale both terms to twice the larger scale with 7 bits of headroom, square, scale.

    Source: tensorflow/lite/kernels/squared_difference.cc.
    """
    difference = region.defined(operator.args[0], "relax.subtract")
    operands = None if difference is None else eight_bit_operands(region, difference)
    if operands is None:
        return None
    headroom = 7
    common = 2 * max(float(o.scale[0]) for o in operands)
    terms = [immediates(factors_of(o.scale / common)) for o in operands]
    unit = common * common / (2 ** (2 * headroom) * float(grid.scale))
    output = factors_of(np.array([unit]))
    largest = (2**9 << (headroom - 1)) ** 2 << int(output.left_shift[0])

    def compute(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            first, second = (
                scaled(
                    centred(data, operand, indices) * 2**headroom, *factors,
                    largest=operand.largest << headroom,
                )
                for data, operand, factors in zip((left, right), operands, terms, strict=True)
            )  # fmt: skip
            return stored(
                scaled(call("fixed_square", first - second), *immediates(output), largest=largest),
                grid,
            )

        return te.compute(static_shape(operator), element, name="squared_difference")

    return region.emit_te("squared_difference", compute, *(o.data for o in operands))


def prelu(region: IntegerArithmetic, call: tvm.ir.Call, grid: Grid) -> relax.Expr | None:
    """Scale positive values by one factor, the products of negative ones with slopes by another.

    Source: tensorflow/lite/kernels/activations.cc (PreluPrepare), internal/reference/prelu.h.
    """
    operands = eight_bit_operands(region, call)
    if operands is None:
        return None
    source, slopes = operands
    scale = np.float32(source.scale[0])
    whole = factors_of(np.array([scale / grid.scale], "float64"))
    sloped = factors_of(np.array([scale * np.float32(slopes.scale[0]) / grid.scale], "float64"))
    axis = int(call.attrs.axis) % len(static_shape(call))

    def compute(data: te.Tensor, slopes_data: te.Tensor) -> te.Tensor:
        def element(*indices: Any) -> Integer:
            value = centred(data, source, indices)
            slope = centred(slopes_data, slopes, (indices[axis],))
            positive = scaled(
                value, *immediates(whole), largest=source.largest << int(whole.left_shift[0])
            )
            largest = source.largest * slopes.largest << int(sloped.left_shift[0])
            negative = scaled(value * slope, *immediates(sloped), largest=largest)
            return stored(te.if_then_else(value >= 0, positive, negative), grid)

        return te.compute(static_shape(call), element, name="prelu")

    return region.emit_te("prelu", compute, source.data, slopes.data)


def centred(data: te.Tensor, operand: Quantised, indices: tuple[Any, ...]) -> Integer:
    return element_of(data, indices).astype("int32") - int(operand.zero_point[0])


def operands_of(region: IntegerArithmetic, call: tvm.ir.Call) -> list[Quantised] | None:
    """Return both operands if they are 8-bit tensors, or 16-bit ones."""
    values = [region.value(a) for a in call.args]
    operands = [v for v in values if isinstance(v, Quantised) and v.per_tensor]
    if len(operands) < len(values):
        return None
    same = all(o.eight_bit for o in operands) or all(o.sixteen_bit for o in operands)
    return operands if same else None


def powers_of_two(operands: list[Quantised], grid: Grid) -> bool:
    """Tell the case of 16-bit sums that TFLite has another kernel for, one that only shifts."""
    scales = [float(grid.scale), *(float(o.scale[0]) for o in operands)]
    return operands[0].sixteen_bit and all(math.frexp(s)[0] == 0.5 for s in scales)


def eight_bit_operands(region: IntegerArithmetic, call: tvm.ir.Call) -> list[Quantised] | None:
    values = [region.value(a) for a in call.args]
    operands = [v for v in values if isinstance(v, Quantised) and v.per_tensor and v.eight_bit]
    return operands if len(operands) == len(values) else None


def element_of(data: te.Tensor, indices: tuple[Any, ...]) -> Integer:
    """Read the element that broadcasting puts at a place of the result."""
    own = indices[len(indices) - len(data.shape) :]
    return data(*(0 if int(d) == 1 else i for d, i in zip(data.shape, own, strict=True)))
