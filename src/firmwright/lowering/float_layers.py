"""Reads a region as one float32 layer.

A layer is a convolution or a product, and an optional bias, sum and activation.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.chains import (
    CONVOLUTION,
    PRODUCT,
    Definitions,
    list_definitions,
    skip_clips,
    skip_reshapes,
    split_addition,
)
from firmwright.ir.layer import Array, FloatLayer, LayerKind, LinearLayer
from firmwright.ir.relax import (
    TO_FIRST,
    TO_LAST,
    Constant,
    constant_array,
    dtype_of,
    operator_name,
    static_shape,
)
from firmwright.lowering.integer_layers import describe_convolution, describe_product, lay_rows

KINDS = {
    LayerKind.CONV2D: LayerKind.FLOAT_CONV2D,
    LayerKind.DEPTHWISE_CONV2D: LayerKind.FLOAT_DEPTHWISE_CONV2D,
}


def read_float_layer(function: relax.Function) -> FloatLayer | None:
    """Return the float32 layer that a region's function computes, or None for other functions."""
    results = function.body.body.fields
    if len(results) != 1:
        return None
    definitions, parameters = list_definitions(function), list(function.params)
    argument, bounds = skip_clips(results[0], definitions, reshapes=True)
    low, high = -np.inf, np.inf
    for limits in bounds:
        low, high = map(float, np.clip(np.array(limits, "float32"), low, high))

    def read_tensor(value: relax.Expr) -> relax.Var | None:
        same = value in parameters and static_shape(value) == static_shape(argument)
        return value if same else None

    def read_constant(value: relax.Expr) -> Array | None:
        constant = definitions.get(value, value)
        return constant_array(constant) if isinstance(constant, Constant) else None

    sums, added = split_addition(argument, definitions, read_tensor)
    sums, bias = split_addition(sums, definitions, read_constant)
    anchor = definitions.get(sums)
    linear = describe_anchor(anchor, definitions)
    if anchor is None or linear is None or low > high:
        return None
    data, axes = read_data(anchor, definitions)
    given = {"input": data, **({} if added is None else {"added": added})}
    roles = [name for p in function.params for name, value in given.items() if value.same_as(p)]
    biases = spread_bias(np.zeros(1, "float32") if bias is None else bias, linear.out_channels)
    if biases is None or len(roles) != len(given) or len(roles) != len(function.params):
        return None
    return FloatLayer(
        **linear.list_sums(bias=biases),
        roles=tuple(roles),
        is_planar=axes == TO_LAST,
        low=low,
        high=high,
    )


def read_data(anchor: tvm.ir.Call, definitions: Definitions) -> tuple[relax.Expr, tuple[int, ...]]:
    """Return the tensor that an anchor reads, and the axes of the tensor's permutation.

    The axes are () if the anchor reads the tensor directly. A convolution may read a tensor with
    channels first. A product may read a tensor with channels last, although the model's rows have
    channels first.
    """
    moved = skip_reshapes(anchor.args[0], definitions)
    call = definitions.get(moved)
    if call is None or operator_name(call) != "relax.permute_dims" or call.attrs.axes is None:
        return moved, ()
    axes = tuple(int(axis) for axis in call.attrs.axes)
    if operator_name(anchor) == CONVOLUTION:
        fits = axes == TO_LAST and anchor.args[0].same_as(moved)
    else:
        fits = axes == TO_FIRST and static_shape(anchor.args[0])[-1] == prod(
            static_shape(moved)[1:]
        )
    return (skip_reshapes(call.args[0], definitions), axes) if fits else (moved, ())


def spread_bias(bias: Array, channels: int) -> Array | None:
    """Return one number per channel, or None if the constant differs within a channel."""
    if bias.size == 1:
        return np.full(channels, bias.item(), "float32")
    return bias.reshape(-1) if bias.size == bias.shape[-1] == channels else None


def describe_anchor(anchor: tvm.ir.Call | None, definitions: Definitions) -> LinearLayer | None:
    """Return the sums of a float32 convolution or product that has constant weights.

    The sums have no bias. A product is a convolution with one tap. The rows of the product are the
    pixels of one line.
    """
    if anchor is None or operator_name(anchor) not in (CONVOLUTION, PRODUCT):
        return None
    weights = definitions.get(anchor.args[1], anchor.args[1])
    if not isinstance(weights, Constant):
        return None
    if {dtype_of(value) for value in (anchor, anchor.args[0], weights)} != {"float32"}:
        return None
    array = constant_array(weights)
    if operator_name(anchor) == CONVOLUTION:
        linear = describe_convolution(anchor, array)
        kind = KINDS.get(linear.kind) if linear else None
        return replace(linear, kind=kind) if linear and kind else None
    moved, axes = read_data(anchor, definitions)
    if axes == TO_FIRST and array.ndim == 2:
        _, height, width, channels = static_shape(moved)
        rows = array.reshape(channels, height, width, -1)
        array = rows.transpose(1, 2, 0, 3).reshape(array.shape)
    linear = describe_product(anchor, array)
    return linear and lay_rows(linear, LayerKind.FLOAT_CONV2D)
