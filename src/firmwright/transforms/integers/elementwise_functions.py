"""Reads elementwise operators of one tensor and constants as numpy functions with equal results.

Each function is monotone in every channel, so a chain of functions is a step function of the input.
Therefore the ends of a range determine the range of the result, and a binary search finds each
step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name

Array = npt.NDArray[Any]

Values = Mapping[relax.Var, relax.Expr]


@dataclass(frozen=True)
class ElementwiseFunction:
    """An operator on the tensor ``source``. ``compute`` maps source numbers to result numbers.

    Integers of any type are computed as int64. ``slope`` is the operator's factor before rounding.
    ``is_whole`` states whether results are whole numbers. With None, results are whole if the
    source's numbers are whole. ``is_affine`` states whether the operator is a product and a sum on
    whole numbers. ``may_overflow`` states whether results can be farther from zero than the source.
    """

    source: relax.Var
    compute: Callable[[Array], Array]
    slope: Array | float = 1.0
    is_whole: bool | None = None
    is_affine: bool = False
    may_overflow: bool = False


def read_function(value: relax.Expr, values: Values) -> ElementwiseFunction | None:
    """Return the value of a variable as a function, or None for other operators."""
    make = READERS.get(operator_name(value))
    return make(value, values) if make else None


def read_constant(expression: relax.Expr, values: Values) -> Array | None:
    """Return the numbers of a (cast) constant, integers as int64, or None for other values."""
    value = values.get(expression, expression) if isinstance(expression, relax.Var) else expression
    if operator_name(value) == "relax.astype":
        value = value.args[0]
        value = values.get(value, value) if isinstance(value, relax.Var) else value
    if not isinstance(value, Constant):
        return None
    array = constant_array(value)
    return array.astype("int64") if array.dtype.kind in "iu" else array


def is_float(expression: relax.Expr) -> bool:
    return dtype_of(expression) in ("float32", "float64")


def are_whole(numbers: Array) -> bool:
    return bool(np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all())


def keep_whole(numbers: Array) -> bool | None:
    """Return ``is_whole`` of an operator with these numbers, for :class:`ElementwiseFunction`."""
    return None if are_whole(numbers) else False


def read_operands(call: relax.Expr, values: Values) -> tuple[relax.Var, Array, bool] | None:
    """Return the variable, the constant, and whether the constant is the first operand.

    The result is None if no operand is a constant, or if the other operand is not a variable.
    """
    if not is_float(call) and not dtype_of(call).startswith("int"):
        return None
    for index in (1, 0):
        numbers, tensor = read_constant(call.args[index], values), call.args[1 - index]
        if numbers is not None and isinstance(tensor, relax.Var):
            return tensor, numbers, index == 0
    return None


def read_sum(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    operands = read_operands(call, values)
    if operands is None:
        return None
    source, numbers, is_first = operands
    whole = keep_whole(numbers)
    if operator_name(call) == "relax.add":
        return ElementwiseFunction(source, lambda x: x + numbers, 1.0, whole, whole is None, True)
    if is_first:
        return ElementwiseFunction(source, lambda x: numbers - x, -1.0, whole, whole is None, True)
    return ElementwiseFunction(source, lambda x: x - numbers, 1.0, whole, whole is None, True)


def read_product(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    operands = read_operands(call, values)
    if operands is None:
        return None
    source, numbers, _ = operands
    slope, whole = numbers.astype("float64"), keep_whole(numbers)
    return ElementwiseFunction(source, lambda x: x * numbers, slope, whole, whole is None, True)


def read_quotient(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    """Return the function of a division by numbers.

    A division of integers truncates, or rounds down.
    """
    operands = read_operands(call, values)
    if operands is None or operands[2] or not operands[1].all():
        return None
    source, numbers, _ = operands
    slope = 1 / numbers.astype("float64")
    if operator_name(call) == "relax.floor_divide":
        return ElementwiseFunction(source, lambda x: np.floor_divide(x, numbers), slope, True)
    if is_float(call):
        is_sign = bool((np.abs(numbers) == 1).all())
        return ElementwiseFunction(
            source, lambda x: x / numbers, slope, None if is_sign else False, is_sign
        )
    return ElementwiseFunction(source, lambda x: divide_to_zero(x, numbers), slope, True)


def divide_to_zero(x: Array, numbers: Array) -> Array:
    quotient: Array = np.abs(x) // np.abs(numbers) * (np.sign(x) * np.sign(numbers))
    return quotient


def read_shift(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    operands = read_operands(call, values)
    if operands is None or operands[2] or not ((operands[1] >= 0) & (operands[1] < 32)).all():
        return None
    source, counts, _ = operands
    return ElementwiseFunction(
        source, lambda x: x >> counts, 2.0 ** -counts.astype("float64"), True
    )


def read_limit(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    operands = read_operands(call, values)
    if operands is None:
        return None
    source, numbers, _ = operands
    limit = np.maximum if operator_name(call) == "relax.maximum" else np.minimum
    return ElementwiseFunction(source, lambda x: limit(x, numbers), 1.0, keep_whole(numbers))


def read_clip(call: relax.Expr, _: Values) -> ElementwiseFunction | None:
    if not isinstance(call.args[0], relax.Var):
        return None
    if not all(hasattr(a, "value") for a in call.args[1:]):
        return None
    bounds = [float(a.value) for a in call.args[1:]]
    if is_float(call):
        limits = np.array(bounds, dtype_of(call))
    else:  # a limit outside int64 has no effect
        ends = np.iinfo("int64")
        limits = np.array([min(max(int(b), ends.min), ends.max) for b in bounds], "int64")
    return ElementwiseFunction(
        call.args[0], lambda x: np.clip(x, limits[0], limits[1]), 1.0, keep_whole(limits)
    )


def read_relu(call: relax.Expr, _: Values) -> ElementwiseFunction | None:
    source = call.args[0]
    return (
        ElementwiseFunction(source, lambda x: np.maximum(x, 0))
        if isinstance(source, relax.Var)
        else None
    )


def read_floor(call: relax.Expr, _: Values) -> ElementwiseFunction | None:
    source = call.args[0]
    compute = np.floor if operator_name(call) == "relax.floor" else np.ceil
    if not isinstance(source, relax.Var):
        return None
    return ElementwiseFunction(source, compute if is_float(call) else (lambda x: x), 1.0, True)


def read_cast(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    """Return the function of a cast between float32, float64 and integers.

    An unsigned sum that wraps around is read as a signed sum.
    """
    source, dtype = call.args[0], dtype_of(call)
    if not isinstance(source, relax.Var) or "float16" in (dtype, dtype_of(source)):
        return None
    if dtype.startswith("int") and dtype_of(source).startswith("uint"):
        wrapped = read_wrapped(call, values)
        if wrapped is not None:
            return wrapped
    if is_float(call):
        return ElementwiseFunction(source, lambda x: x.astype(dtype), is_affine=True)
    if dtype.startswith(("int", "uint")):
        return ElementwiseFunction(
            source, lambda x: np.trunc(x).astype("int64"), 1.0, True, not is_float(source)
        )
    return None


def read_wrapped(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    """Return the function of a signed sum or product that is computed with unsigned integers."""
    inner = values.get(call.args[0])
    make = {"relax.add": read_sum, "relax.subtract": read_sum, "relax.multiply": read_product}.get(
        operator_name(inner)
    )
    if inner is None or make is None:
        return None
    operands = [values.get(a, a) if isinstance(a, relax.Var) else a for a in inner.args]
    signed = dtype_of(call)
    casts = [
        relax.const(constant_array(o).astype(signed), signed)
        if isinstance(o, Constant)
        else o.args[0]
        for o in operands
        if isinstance(o, Constant) or operator_name(o) == "relax.astype"
    ]
    if len(casts) < 2 or any(dtype_of(c) != signed for c in casts):
        return None
    plain = relax.BlockBuilder().normalize(type(call)(inner.op, casts, inner.attrs))
    return make(plain, values)


def read_guard(call: relax.Expr, values: Values) -> ElementwiseFunction | None:
    """Return the function of an operator that replaces infinities and NaN by a number."""
    condition: Any = values.get(call.args[0])
    if operator_name(condition) != "relax.logical_not" or not isinstance(call.args[2], relax.Var):
        return None
    asked: Any = values.get(condition.args[0])
    same = operator_name(asked) == "relax.isfinite" and asked.args[0].same_as(call.args[2])
    return ElementwiseFunction(call.args[2], lambda x: x, is_affine=True) if same else None


READERS: dict[str, Callable[[Any, Values], ElementwiseFunction | None]] = {
    "relax.add": read_sum,
    "relax.subtract": read_sum,
    "relax.multiply": read_product,
    "relax.divide": read_quotient,
    "relax.floor_divide": read_quotient,
    "relax.right_shift": read_shift,
    "relax.maximum": read_limit,
    "relax.minimum": read_limit,
    "relax.clip": read_clip,
    "relax.nn.relu": read_relu,
    "relax.floor": read_floor,
    "relax.ceil": read_floor,
    "relax.astype": read_cast,
    "relax.where": read_guard,
}
