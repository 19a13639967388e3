"""Evaluates arithmetic, reshapes, transposes and casts of constants, instead of the firmware.

TVM's FoldConstant would also evaluate the ``dequantize`` of a weight. Each weight would then need
four bytes. This rewrite moves a layout operator *before* the dequantize, so weights stay integers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.operators import PERMUTATIONS
from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_each,
    static_shape,
)


@rewrite_each(*PERMUTATIONS, "relax.astype")
def fold_layout_of_constants(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Evaluate casts of constants, and layout operators on constants, also after a dequantize."""
    name = operator_name(call)
    source = definition(builder, call.args[0])
    if isinstance(source, Constant):
        array = constant_array(source)
        if name == "relax.astype":
            return relax.const(array.astype(dtype_of(call)), dtype_of(call))
        return relax.const(apply_layout(array, call), dtype_of(source))
    if name != "relax.astype" and operator_name(source) == "relax.dequantize":
        folded = fold_through_dequantize(source, call)
        return call if folded is None else folded
    return call


def apply_layout(array: npt.NDArray[np.generic], call: tvm.ir.Call) -> npt.NDArray[np.generic]:
    """Apply a layout operator to an array. The shape of the operator's result must be inferred."""
    if operator_name(call) == "relax.permute_dims":
        axes = call.attrs.axes
        return np.transpose(array, None if axes is None else [int(a) for a in axes])
    return array.reshape(static_shape(call))


def fold_through_dequantize(dequantize: tvm.ir.Call, layout: tvm.ir.Call) -> relax.Expr | None:
    """Return dequantize(layout(constant)), or None if the channel axis is lost."""
    data, scale, zero_point = dequantize.args
    if not isinstance(data, Constant):
        return None
    array = constant_array(data)
    axis = int(dequantize.attrs.axis) % max(array.ndim, 1)
    channels = int(np.size(constant_array(scale)))
    # To follow the axis, move an array that contains each element's channel number.
    if channels > 1:
        where = [1] * array.ndim
        where[axis] = channels
        numbers = np.broadcast_to(np.arange(channels).reshape(where), array.shape)
        axis_after = find_channel_axis(apply_layout(numbers, layout), channels)
        if axis_after is None:
            return None
    else:
        axis_after = 0
    constant = relax.const(np.ascontiguousarray(apply_layout(array, layout)), dtype_of(data))
    return relax.op.dequantize(constant, scale, zero_point, axis_after, dtype_of(dequantize))


def find_channel_axis(numbers: npt.NDArray[np.generic], channels: int) -> int | None:
    """Return the axis along which the channel numbers are 0, 1, 2 …, or None."""
    for axis, length in enumerate(numbers.shape):
        along = np.arange(channels).reshape([-1 if a == axis else 1 for a in range(numbers.ndim)])
        if length == channels and np.array_equal(numbers, np.broadcast_to(along, numbers.shape)):
            return axis
    return None


ROUNDED_EXACTLY = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.divide,
    "relax.sqrt": np.sqrt,
}
"""Operators for which IEEE 754 defines every bit, so that the firmware computes equal results."""


@rewrite_each(*ROUNDED_EXACTLY)
def fold_constant_arithmetic(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace operators on float32 constants by the result, unless the result is larger."""
    operands = [definition(builder, argument) for argument in call.args]
    if dtype_of(call) != "float32" or not all(isinstance(o, Constant) for o in operands):
        return call
    arrays = [constant_array(operand) for operand in operands]
    with np.errstate(all="ignore"):
        result = ROUNDED_EXACTLY[operator_name(call)](*arrays)
    return call if result.size > max(a.size for a in arrays) else relax.const(result)
