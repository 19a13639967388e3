"""Lowers 16-bit floats in TIR to bit patterns.

Casts call functions of sixteen_bit_floats.h. :mod:`firmwright.transforms.sixteen_bit_floats`
replaces all other computations on 16-bit floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS


def to_bit_patterns(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.uint16) if array.dtype.name in SIXTEEN_BIT_FLOATS else array


def store_bit_patterns(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Store 16-bit floats as uint16.

    Raises ValueError if the function computes with 16-bit floats.
    """
    replaced = [(tirx.Cast, replace_cast), (tvm.ir.Call, replace_reinterpretation)]
    function = structural_map(function, replaced)
    structural_walk(function, (tvm.ir.Expr, refuse_arithmetic))
    stored: dict[tvm.ir.Var, tvm.ir.Var] = {}

    def store(variable: tvm.ir.Var) -> tvm.ir.Var:
        if not isinstance(variable.ty, tirx.BufferType) or not is_16bit_float(variable.ty):
            return variable
        if variable not in stored:
            stored[variable] = tirx.decl_buffer(variable.ty.shape, "uint16", variable.name)
        return stored[variable]

    def load(load: tvm.ir.TensorLoad) -> tvm.ir.TensorLoad:
        return tirx.BufferLoad(load.source, load.indices) if is_16bit_float(load.ty) else load

    return structural_map(function, [(tvm.ir.Var, store), (tvm.ir.TensorLoad, load)])


def is_16bit_float(kind: Any) -> bool:
    return str(kind.dtype) in SIXTEEN_BIT_FLOATS


def replace_cast(cast: tirx.Cast) -> tirx.Expr:
    """Replace a cast with a call of the C function that converts from or to bit patterns."""
    before, after = str(cast.value.ty.dtype), str(cast.ty.dtype)
    if not {before, after} & SIXTEEN_BIT_FLOATS:
        return cast
    result = "uint16" if after in SIXTEEN_BIT_FLOATS else after
    return tirx.call_pure_extern(result, f"{before}_to_{after}", cast.value)


def replace_reinterpretation(call: tvm.ir.Call) -> tirx.Expr:
    """Remove a reinterpretation between a 16-bit float and an integer.

    The float is read from an array or stored in an array, and arrays store 16-bit floats as
    integers.
    """
    if not isinstance(call.op, tvm.ir.Op) or call.op.name != "tirx.reinterpret":
        return call
    (number,) = call.args
    return number if is_16bit_float(call.ty) or is_16bit_float(number.ty) else call


def refuse_arithmetic(expression: tirx.Expr) -> None:
    kind = expression.ty
    loads = isinstance(expression, tvm.ir.TensorLoad)
    if isinstance(kind, tvm.ir.PrimType) and is_16bit_float(kind) and not loads:
        raise ValueError(f"it computes {kind.dtype}")
