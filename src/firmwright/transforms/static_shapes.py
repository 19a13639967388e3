"""Evaluates arithmetic on shapes and scalar constants, which exporters write as operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.operators import relax_names
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
    static_shape,
)

Arrays = list[npt.NDArray[Any]]

NUMPY_FUNCTIONS = relax_names(
    "add subtract multiply floor_divide maximum minimum equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_not isnan where"
)
"""The operators with which exporters and importers compute shapes and limits.

The operators have the names of numpy's functions.
"""


def fold_static_shapes(module: tvm.IRModule) -> tvm.IRModule:
    """Replace shapes of static tensors, and arithmetic on small constants, by constants."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) == "relax.shape_to_tensor":
            shape = shape_values(definition(builder, call.args[0]))
            return call if shape is None else relax.const(np.array(shape, "int64"), "int64")
        if not isinstance(call.ty, relax.TensorType):
            return call
        arrays = constant_arguments(builder, call)
        if arrays is None:
            return call
        folded = evaluate(call, arrays)
        return (
            call if folded is None else relax.const(folded.astype(dtype_of(call)), dtype_of(call))
        )

    return rewrite_calls(module, rewrite)


def shape_values(shape: relax.Expr) -> tuple[int, ...] | None:
    """Return the numbers of a shape expression, or None if the shape is not static."""
    if operator_name(shape) == "relax.shape_of":
        return static_shape(shape.args[0])
    if isinstance(shape, relax.ShapeExpr):
        values = list(shape.values)
        return (
            tuple(map(int, values)) if all(isinstance(v, tvm.tirx.IntImm) for v in values) else None
        )
    return None


def is_shape_or_scalar(value: relax.Expr) -> bool:
    """Return whether a value is a constant of integers or of one number, unlike weights."""
    if not isinstance(value, Constant):
        return False
    return dtype_of(value).startswith(("int", "uint", "bool")) or constant_array(value).size == 1


def constant_arguments(builder: relax.BlockBuilder, call: tvm.ir.Call) -> Arrays | None:
    """Return the values of all arguments, or None if an argument is not a constant.

    Tuples are flattened.
    """
    arguments: list[relax.Expr] = []
    for argument in call.args:
        value = definition(builder, argument)
        arguments += value.fields if isinstance(value, relax.Tuple) else [value]
    values = [definition(builder, a) for a in arguments]
    if not values or not all(is_shape_or_scalar(v) for v in values):
        return None
    return [constant_array(v) for v in values]


def evaluate(call: tvm.ir.Call, arrays: Arrays) -> npt.NDArray[Any] | None:
    name = operator_name(call)
    if name in NUMPY_FUNCTIONS:
        return np.asarray(getattr(np, name.removeprefix("relax."))(*arrays))
    if name == "relax.take":
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        return np.asarray(np.take(arrays[0], arrays[1], axis=axis, mode="wrap"))
    if name == "relax.concat":
        return np.concatenate(arrays, axis=int(call.attrs.axis or 0))
    return None
