"""Computes operators on float16 and bfloat16 in float32. Tensors are still stored in 16 bits.

The operators read float32, and their results are rounded. ONNX Runtime also computes in float32 if
the CPU supports the operator only in float32. For + - * / and the square root, the result equals
IEEE 754's arithmetic on 16 bits. Sums and functions are rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from firmwright.ir.operators import PERMUTATIONS
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, rewrite_calls
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS

TO_FLOAT32 = dict.fromkeys(SIXTEEN_BIT_FLOATS, "float32")

CALLS_OF_FUNCTIONS = frozenset({"relax.call_tir"})
"""Calls whose types the called function determines."""


def compute_in_float32(module: tvm.IRModule) -> tvm.IRModule:
    """Add casts around operators of 16-bit floats, except operators that only move elements."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        if name in PERMUTATIONS | CALLS_OF_FUNCTIONS or not uses_16bit_floats(call):
            return call
        if name == "relax.astype":
            return cast_via_float32(builder, call)
        arguments = [widen_argument(builder, a) for a in call.args]
        wide = builder.emit(tvm.ir.Call(call.op, arguments, replace_dtypes(call.attrs, TO_FLOAT32)))
        return narrow_result(builder, wide, call.ty)

    return rewrite_calls(module, rewrite)


def is_16bit_float(kind: Any) -> bool:
    """Return whether a type is a tensor of 16-bit floats, or a tuple with such a tensor."""
    if isinstance(kind, relax.TupleType):
        return any(is_16bit_float(field) for field in kind.fields)
    return isinstance(kind, relax.TensorType) and str(kind.dtype) in SIXTEEN_BIT_FLOATS


def uses_16bit_floats(call: tvm.ir.Call) -> bool:
    return is_16bit_float(call.ty) or any(is_16bit_float(a.ty) for a in call.args)


def cast_via_float32(builder: relax.BlockBuilder, cast: tvm.ir.Call) -> relax.Expr:
    """Cast through float32. 64-bit floats are cast directly and rounded only once."""
    source = cast.args[0]
    if dtype_of(source) in ("float32", "float64") or dtype_of(cast) == "float32":
        return cast
    return relax.op.astype(builder.emit(relax.op.astype(source, "float32")), dtype_of(cast))


def widen_argument(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    if isinstance(value, relax.Tuple):
        return relax.Tuple([widen_argument(builder, field) for field in value.fields])
    if isinstance(value, tvm.tirx.FloatImm) and str(value.ty.dtype) in SIXTEEN_BIT_FLOATS:
        return tvm.tirx.FloatImm("float32", float(value.value))
    if not is_16bit_float(value.ty):
        return value
    if isinstance(value, Constant):
        return relax.const(constant_array(value).astype("float32"), "float32")
    if isinstance(value.ty, relax.TupleType):
        fields = range(len(value.ty.fields))
        items = [builder.emit(relax.TupleGetItem(value, i)) for i in fields]
        return widen_argument(builder, relax.Tuple(items))
    return builder.emit(relax.op.astype(value, "float32"))


def narrow_result(builder: relax.BlockBuilder, value: relax.Var, kind: Any) -> relax.Expr:
    """Round an operator's result to the type that it has in the model."""
    if isinstance(kind, relax.TupleType):
        items = (builder.emit(relax.TupleGetItem(value, i)) for i in range(len(kind.fields)))
        return relax.Tuple(
            [narrow_result(builder, v, k) for v, k in zip(items, kind.fields, strict=True)]
        )
    return relax.op.astype(value, kind.dtype) if is_16bit_float(kind) else value


def replace_dtypes(attributes: Any, replacements: Mapping[str, str]) -> Any:
    if attributes is None:
        return None
    described = type(attributes).__tvm_ffi_type_info__
    fields = {f.name: getattr(attributes, f.name) for f in described.fields}
    changes = {n: replacements[str(v)] for n, v in fields.items() if str(v) in replacements}
    return tvm.ir.make_node(described.type_key, **{**fields, **changes}) if changes else attributes
