"""Sums of products of int8 that are computed from int32 operands read the int8 themselves.

ONNX's ConvInteger and MatMulInteger come as convolutions and products of operands cast to int32.
"""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_calls,
)
from firmwright.targets.soma_dory.matching import CONVOLUTION, INT8_RANGE, PRODUCT


def narrow_operands(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrite every int32 convolution and product of an int8 tensor and constants within int8."""

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        name = operator_name(call)
        if name not in (CONVOLUTION, PRODUCT) or dtype_of(call) != "int32":
            return call
        image, weights = (narrow_operand(operand, builder) for operand in call.args)
        if image is None or weights is None:
            return call
        if name == PRODUCT:
            return relax.op.matmul(image, weights, out_dtype="int32")
        how = call.attrs
        return relax.op.nn.conv2d(
            image, weights, how.strides, how.padding, how.dilation, how.groups, how.data_layout,
            how.kernel_layout, how.out_layout, "int32",
        )  # fmt: skip

    return rewrite_calls(module, rewrite)


def narrow_operand(operand: relax.Expr, builder: relax.BlockBuilder) -> relax.Expr | None:
    """Return the int8 that an int32 operand is a cast of; None where it is none."""
    if isinstance(operand, Constant):
        array = constant_array(operand)
        fits = INT8_RANGE[0] <= array.min() and array.max() <= INT8_RANGE[1]
        return relax.const(array.astype("int8"), "int8") if fits else None
    made = definition(builder, operand)
    is_cast = operator_name(made) == "relax.astype" and dtype_of(made.args[0]) == "int8"
    return made.args[0] if is_cast else None
