"""Follows the operators of a layer backward: clips, reshapes, an addition, the sums of products.

``definitions`` maps each variable to its value. The functions start at a value and skip the
operators that computed it. The result is the value before these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from firmwright.ir.nodes import Call, Expr, Function
from firmwright.ir.operators import RESHAPES, read_clip_bounds
from firmwright.ir.relax import Constant, constant_array, list_bindings, operator_name

CONVOLUTION = "relax.nn.conv2d"
PRODUCT = "relax.matmul"
BYTES = ("int8", "uint8")
INT32_LIMIT = 2**31

Definitions = Mapping[Expr, Call]
Added = TypeVar("Added")


def list_definitions(function: Function) -> Definitions:
    return {b.var: b.value for b in list_bindings(function)}


def skip_reshapes(value: Expr, definitions: Definitions) -> Expr:
    """Return the tensor before any reshapes, which has equal elements in equal order."""
    while (call := definitions.get(value)) is not None and operator_name(call) in RESHAPES:
        value = call.args[0]
    return value


def skip_clips(
    value: Expr, definitions: Definitions, reshapes: bool = False
) -> tuple[Expr, list[tuple[float, float]]]:
    """Return the value before clips, and the bounds of the clips from the last to the first.

    Reshapes may also be before, between and after the clips if ``reshapes`` is set.
    """
    bounds: list[tuple[float, float]] = []
    while True:
        value = skip_reshapes(value, definitions) if reshapes else value
        call = definitions.get(value)
        clip_bounds = None if call is None else read_clip_bounds(call)
        if call is None or clip_bounds is None:
            return value, bounds
        bounds.append(clip_bounds)
        value = call.args[0]


def split_addition(
    value: Expr, definitions: Definitions, read: Callable[[Expr], Added | None]
) -> tuple[Expr, Added | None]:
    """Return both operands of an addition. ``read`` converts the second operand.

    The value and None if ``read`` accepts neither operand, or if the value is not an addition.
    """
    call = definitions.get(value)
    if call is not None and operator_name(call) == "relax.add":
        for sums, operand in (call.args, reversed(call.args)):
            if (added := read(operand)) is not None:
                return sums, added
    return value, None


def has_constant_params(call: Call) -> bool:
    """Return whether the scales and zero points of a quantize or dequantize are constants."""
    return all(isinstance(a, Constant) for a in call.args[1:3])


def is_per_tensor(call: Call) -> bool:
    """Return whether a quantize or dequantize has one constant scale and zero point."""
    return has_constant_params(call) and all(constant_array(a).size == 1 for a in call.args[1:3])


def is_dequantized(value: Expr) -> bool:
    """Return whether a value is a dequantize with constant scales and zero points."""
    return operator_name(value) == "relax.dequantize" and has_constant_params(value)


def is_dequantized_constant(value: Expr) -> bool:
    """Return whether a value is a dequantize of constant integers."""
    return is_dequantized(value) and isinstance(value.args[0], Constant)
