"""Converts bit patterns in Relax: BitCast, and 8-bit and 4-bit floats in bytes.

The conversions call functions of bit_patterns.h or sixteen_bit_floats.h (templates/network).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import tvm
from tvm import relax, te, tirx

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS

Convert = Callable[[Any], tirx.Expr]

ROUND_MODES = {b"up": 0x7FFFFF, b"down": 0, b"nearest": 0x400000}
"""The number that is added to a float32's bits before float8_e8m0fnu keeps only the exponent."""


def convert_float_to_code(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert floats to codes of the type ``kind``, which are uint8."""
    (data,) = inputs
    kind = attributes["kind"].decode()
    saturate = tirx.const(int(attributes["saturate"]), "int32")
    settings = {
        "float4_e2m1fn": (),
        "float8_e8m0fnu": (tirx.const(ROUND_MODES[attributes["round_mode"]], "uint32"), saturate),
    }
    given = settings.get(kind, (saturate,))
    if str(data.ty.dtype) == "float64":
        data = map_elements(builder, data, make_call("float32", "float64_to_odd_float32"))
    elif str(data.ty.dtype) != "float32":
        data = builder.emit(relax.op.astype(data, "float32"))
    return map_elements(builder, data, make_call("uint8", f"float32_to_{kind}", *given))


def convert_code_to_float(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert uint8 codes of the type ``kind`` to float32."""
    kind = attributes["kind"].decode()
    return map_elements(builder, inputs[0], make_call("float32", f"{kind}_to_float32"))


def convert_bit_cast(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert BitCast, because TVM has no converter.

    Between integers, BitCast is a cast that wraps around.
    """
    (data,) = inputs
    return cast_bits(builder, data, onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]).name)


def cast_bits(builder: relax.BlockBuilder, data: relax.Expr, after: str) -> relax.Expr:
    """Return the bits of each element as an element of the type ``after``, of the same size."""
    before = str(data.ty.dtype)
    if before == after:
        return data
    if "float" in before:
        data = map_elements(builder, data, UNPACK[before])
    if "float" not in after:
        return data if str(data.ty.dtype) == after else builder.emit(relax.op.astype(data, after))
    word = f"uint{tvm.DataType(after).bits}"
    if str(data.ty.dtype) != word:
        data = builder.emit(relax.op.astype(data, word))
    return map_elements(builder, data, PACK[after])


def make_call(result: str, function: str, *arguments: tirx.Expr) -> Convert:
    return lambda element: tirx.call_pure_extern(result, function, element, *arguments)


def make_reinterpretation(result: str) -> Convert:
    """Return a conversion that keeps the bits.

    :mod:`firmwright.lowering.float_bit_patterns` lowers these conversions.
    """
    return lambda element: tirx.reinterpret(result, element)


UNPACK = {
    "float32": make_call("uint32", "float32_bits"),
    "float64": make_call("uint64", "float64_bits"),
    **dict.fromkeys(SIXTEEN_BIT_FLOATS, make_reinterpretation("uint16")),
}
"""Functions that convert floats to bits."""

PACK = {
    "float32": make_call("float32", "float32_of_bits"),
    "float64": make_call("float64", "float64_of_bits"),
    **{kind: make_reinterpretation(kind) for kind in SIXTEEN_BIT_FLOATS},
}
"""Functions that convert bits to floats."""


def map_elements(builder: relax.BlockBuilder, data: relax.Expr, convert: Convert) -> relax.Var:
    """Convert each element in a function that has the name of a cast."""

    def compute(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *position: convert(tensor(*position)))

    return builder.emit_te(compute, data, primfunc_name_hint="cast")
