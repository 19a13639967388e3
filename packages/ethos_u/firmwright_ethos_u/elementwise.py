"""Executes elementwise operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ethosu.vela.ethos_u55_regs import ethos_u55_regs as tables

from firmwright_ethos_u.arithmetic import (
    DOUBLE,
    away_from_zero,
    finish,
    half_up,
    rescale,
    rounding,
)
from firmwright_ethos_u.memory import Array, Memory, input_map, output_map, read_type
from firmwright_ethos_u.operations import split_scale, zero_point
from firmwright_ethos_u.stream import Accelerator, Operation

UNARY = {"LRELU", "ABS", "CLZ"}
HEADROOM = {1: 20, 2: 15}
"""Maps bytes per operand to a left shift of both operands before the scales.

The shift applies if one scale has 32 bits. The scale of the other operand is 1/2. The shift of the
register includes the left shift.
"""

WORD_BITS = 32
BOTH, ONLY_A, ONLY_B = 0, 1, 2
"""The values of scale_mode of IFM_PRECISION: the operands that have a scale."""


def execute(operation: Operation, memory: Memory, accelerator: Accelerator) -> None:
    """Execute one elementwise operation."""
    modes = {mode.value: mode.name for mode in tables.elementwise_mode}
    if operation.parameter not in modes:
        raise operation.reject(f"has an unknown mode ({operation.parameter})")
    mode = modes[operation.parameter]
    if operation["IFM_UPSCALE"]:
        raise operation.reject("upscales its input: unsupported")
    target = output_map(operation)
    shape = (target.shape[0], target.shape[1], operation["IFM_DEPTH_M1"] + 1)
    if shape != target.shape:
        raise operation.reject(
            f"has {shape[2]} input channels and {target.shape[2]} output channels"
        )
    tensor = input_map(operation, "IFM", shape)
    first = tensor.read(memory) - zero_point(operation, "IFM", tensor.dtype)
    second = np.zeros(1, np.int64) if mode in UNARY else second_operand(operation, memory, shape)
    if mode not in UNARY and operation.fields("IFM2_BROADCAST")["operand_order"]:
        first, second = second, first
    values = RULES[mode](operation, first, second, tensor.dtype.itemsize)
    values = np.broadcast_to(values, target.shape)
    target.write(memory, finish(operation, memory, accelerator, values, target.dtype))


def second_operand(operation: Operation, memory: Memory, shape: tuple[int, int, int]) -> Array:
    """Return the second operand, which may be one value or have axes of length 1."""
    flags = operation.fields("IFM2_BROADCAST")
    dtype, _ = read_type(operation, "IFM2_PRECISION")
    zero = zero_point(operation, "IFM2", dtype)
    if flags["broadcast_scalar"]:
        value = operation.signed("IFM2_SCALAR") if dtype.kind == "i" else operation["IFM2_SCALAR"]
        return np.full(1, value - zero, np.int64)
    axes = ("height", "width", "depth")
    lengths = [1 if flags[f"broadcast_{axis}"] else shape[i] for i, axis in enumerate(axes)]
    tensor = input_map(operation, "IFM2", (lengths[0], lengths[1], lengths[2]))
    return tensor.read(memory) - zero


def scale_output(operation: Operation, values: Array) -> Array:
    """Apply the scale of the output if the scale is global.

    Elementwise operations have no scales per channel.
    """
    if not operation.fields("OFM_PRECISION")["scaling"]:
        return values
    return rescale(values, *split_scale(operation["OFM_SCALE"]), rounding(operation))


def scale_operands(operation: Operation, a: Array, b: Array, size: int) -> tuple[Array, Array]:
    """Apply the scales of both operands of an addition or a subtraction."""
    mode = operation.fields("IFM_PRECISION")["scale_mode"]
    scale, shift = split_scale(operation["OPA_SCALE"])
    if mode == BOTH:
        return a * scale, b * operation["OPB_SCALE"]
    if mode > ONLY_B or size not in HEADROOM:
        raise operation.reject(f"has an unsupported scale mode ({mode}, {size} bytes)")
    left = HEADROOM[size]

    def apply(values: Array) -> Array:
        return rescale(values << left, scale, shift + left, DOUBLE)

    return (apply(a), b << left - 1) if mode == ONLY_A else (a << left - 1, apply(b))


def add(operation: Operation, a: Array, b: Array, size: int) -> Array:
    a, b = scale_operands(operation, a, b, size)
    return scale_output(operation, a + b)


def subtract(operation: Operation, a: Array, b: Array, size: int) -> Array:
    a, b = scale_operands(operation, a, b, size)
    return scale_output(operation, a - b)


def multiply(operation: Operation, a: Array, b: Array, size: int) -> Array:
    """Return a * b. For inputs of 32 bits, only the shift of the scale is used."""
    if size == WORD_BITS // 8:
        _, shift = split_scale(operation["OFM_SCALE"])
        return rescale(a, b, shift, rounding(operation))
    return scale_output(operation, a * b)


def minimum(operation: Operation, a: Array, b: Array, _: int) -> Array:
    return scale_output(operation, np.minimum(a, b))


def maximum(operation: Operation, a: Array, b: Array, _: int) -> Array:
    return scale_output(operation, np.maximum(a, b))


def leaky(operation: Operation, a: Array, _: Array, __: int) -> Array:
    """Return a. Negative values are scaled."""
    return np.where(a < 0, scale_output(operation, a), a)


def absolute(operation: Operation, a: Array, _: Array, __: int) -> Array:
    return scale_output(operation, abs(a))


def leading_zeros(_: Operation, a: Array, __: Array, ___: int) -> Array:
    """Return the number of leading zeros of 32 bits."""
    bits = [int(value & 0xFFFFFFFF).bit_length() for value in a.ravel()]
    return WORD_BITS - np.array(bits).reshape(a.shape)


def shift_right(operation: Operation, a: Array, b: Array, _: int) -> Array:
    """Return a / 2**b."""
    return away_from_zero(a, b) if rounding(operation) == DOUBLE else half_up(a, b)


def shift_left(_: Operation, a: Array, b: Array, __: int) -> Array:
    return a << b


RULES: dict[str, Callable[[Operation, Array, Array, int], Array]] = {
    "MUL": multiply,
    "ADD": add,
    "SUB": subtract,
    "MIN": minimum,
    "MAX": maximum,
    "LRELU": leaky,
    "ABS": absolute,
    "CLZ": leading_zeros,
    "SHR": shift_right,
    "SHL": shift_left,
}
"""Maps Vela's names of elementwise modes to functions."""
