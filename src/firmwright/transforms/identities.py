"""Removes operators that return their operand, and replaces some operators with clips or slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_each,
    static_shape,
)


def make_remover(
    name: str, is_identity: Callable[[tvm.ir.Call], bool]
) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """Return a rewrite that replaces an operator by its first argument if ``is_identity`` holds."""

    @rewrite_each(name)
    def remove(_builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        return call.args[0] if is_identity(call) else call

    return remove


@rewrite_each("relax.multiply")
def remove_multiply_by_one(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Remove products with a constant 1 that do not broadcast the other factor."""
    for kept, factor in (call.args, reversed(call.args)):
        factor = definition(builder, factor)
        one = isinstance(factor, Constant) and bool(np.all(constant_array(factor) == 1))
        if one and static_shape(kept) == static_shape(call):
            return kept
    return call


@rewrite_each("relax.nn.dropout")
def remove_training_operators(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace a dropout by its input, because dropout drops elements only during training."""
    mask = relax.TupleGetItem(builder.emit(call), 1)
    return relax.Tuple([call.args[0], builder.emit(mask)])


def pads_nothing(pad: tvm.ir.Call) -> bool:
    return not any(int(width) for width in pad.attrs.pad_width)


def keeps_type(cast: tvm.ir.Call) -> bool:
    return dtype_of(cast) == dtype_of(cast.args[0])


def keeps_shape(reshape: tvm.ir.Call) -> bool:
    return static_shape(reshape) == static_shape(reshape.args[0])


def keeps_size(resize: tvm.ir.Call) -> bool:
    """Return whether a resize to the input's size reads every element at its unchanged position.

    Interpolation then multiplies the neighbor by zero. The results are equal for all finite
    numbers.
    """
    attrs = resize.attrs
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    return (
        str(attrs.method) in ("nearest_neighbor", "linear")
        and str(attrs.coordinate_transformation_mode) in modes
        and static_shape(resize) == static_shape(resize.args[0])
        and dtype_of(resize) == dtype_of(resize.args[0])
    )


def clips_nothing(clip: tvm.ir.Call) -> bool:
    """Return whether a clip has limits that no integer of its type exceeds."""
    dtype = dtype_of(clip)
    if not dtype.startswith(("int", "uint")):
        return False
    low, high = (float(limit.value) for limit in clip.args[1:])
    return low <= np.iinfo(dtype).min and high >= np.iinfo(dtype).max


remove_pad_by_zero = make_remover("relax.nn.pad", pads_nothing)
remove_copy = make_remover("relax.astype", keeps_type)
remove_identity_reshape = make_remover("relax.reshape", keeps_shape)
remove_identity_resize = make_remover("relax.image.resize2d", keeps_size)
remove_identity_clip = make_remover("relax.clip", clips_nothing)


@rewrite_each("relax.minimum")
def convert_max_min_to_clip(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace min(max(x, low), high) by clip(x, low, high), for scalars with low <= high.

    If low > high, min(max(x, low), high) is always high, but clip returns low.
    """
    inner, high = match_scalar_operand(builder, call, "relax.minimum")
    data, low = match_scalar_operand(builder, definition(builder, inner), "relax.maximum")
    if low is None or high is None or low > high:
        return call
    return relax.op.clip(data, low, high)


@rewrite_each("relax.take")
def convert_take_to_slice(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace a ``relax.take`` of one element of an axis at a constant index by a slice.

    A channel shuffle selects its parts with such operators. The slice joins the axis and the next
    axis, so that images with four axes keep four axes. Samples are not sliced. An axis before a
    single sample counts as an axis of the sample.
    """
    data, index = call.args[0], definition(builder, call.args[1])
    shape = static_shape(data)
    if not isinstance(index, Constant) or static_shape(index) or call.attrs.axis is None:
        return call
    axis, position = int(call.attrs.axis) % len(shape), int(constant_array(index).item())
    if axis == 0 and len(shape) > 2 and shape[1] == 1:
        shape, axis = (1, shape[0], *shape[2:]), 1
    if axis == 0 or not 0 <= position < shape[axis]:
        return call
    if axis == len(shape) - 1:
        part = builder.emit(relax.op.strided_slice(data, [axis], [position], [position + 1]))
        return relax.op.reshape(part, shape[:-1])
    length = shape[axis + 1]
    joined = (*shape[:axis], shape[axis] * length, *shape[axis + 2 :])
    data = builder.emit(relax.op.reshape(data, joined))
    return relax.op.strided_slice(data, [axis], [position * length], [(position + 1) * length])


def match_scalar_operand(
    builder: relax.BlockBuilder, value: relax.Expr, name: str
) -> tuple[relax.Expr, float | None]:
    """Return the operand and the scalar constant of an operator ``name``, or (value, None)."""
    if operator_name(value) == name:
        for data, limit in (value.args, reversed(value.args)):
            limit = definition(builder, limit)
            if isinstance(limit, Constant) and constant_array(limit).shape == ():
                return data, constant_array(limit).item()
    return value, None
