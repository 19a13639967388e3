"""Reads a region as one layer of float32: convolution or product, bias, sum, activation."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.layer import Array, FloatLayer, LayerKind
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import (
    TO_FIRST,
    TO_LAST,
    Constant,
    constant_array,
    dtype_of,
    list_bindings,
    operator_name,
    static_shape,
)
from firmwright.lowering.layers import (
    CONVOLUTION,
    PRODUCT,
    Definitions,
    describe_convolution,
    describe_product,
    lay_rows,
)

KINDS = {
    LayerKind.CONV2D: LayerKind.FLOAT_CONV2D,
    LayerKind.DEPTHWISE_CONV2D: LayerKind.FLOAT_DEPTHWISE_CONV2D,
}


def read_float_layer(function: relax.Function) -> FloatLayer | None:
    """Return the layer of float32 that a region's function is; None for anything else."""
    results = function.body.body.fields
    if len(results) != 1:
        return None
    definitions = {b.var: b.value for b in list_bindings(function)}
    argument, low, high = read_limits(results[0], definitions)
    argument, added = split_tensor(argument, list(function.params), definitions)
    anchor, bias = split_constant(argument, definitions)
    shape = describe_anchor(anchor, definitions)
    if anchor is None or shape is None or low > high:
        return None
    data, axes = read_data(anchor, definitions)
    given = {"input": data, **({} if added is None else {"added": added})}
    roles = [name for p in function.params for name, value in given.items() if value.same_as(p)]
    biases = spread_bias(bias, shape["out_channels"])
    if biases is None or len(roles) != len(given) or len(roles) != len(function.params):
        return None
    return FloatLayer(
        **shape, bias=biases, roles=tuple(roles), is_planar=axes == TO_LAST, low=low, high=high
    )


def read_limits(result: relax.Expr, definitions: Definitions) -> tuple[relax.Expr, float, float]:
    """Return what a region's result clamps, and to which float32 limits."""
    low, high = -np.inf, np.inf
    result = skip_reshapes(result, definitions)
    while (call := definitions.get(result)) is not None:
        bounds = read_clip_bounds(call)
        if bounds is None:
            break
        low, high = map(float, np.clip(np.array(bounds, "float32"), low, high))
        result = skip_reshapes(call.args[0], definitions)
    return result, low, high


def skip_reshapes(value: relax.Expr, definitions: Definitions) -> relax.Expr:
    """Return the tensor of which a value is another shape."""
    while (call := definitions.get(value)) is not None and operator_name(call) == "relax.reshape":
        value = call.args[0]
    return value


def read_data(anchor: tvm.ir.Call, definitions: Definitions) -> tuple[relax.Expr, tuple[int, ...]]:
    """Return the tensor that an anchor reads, and the axes by which it is permuted; () for none.

    A convolution may read a tensor with channels first, and a product one with channels last whose
    rows the model wants as if they came first.
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


def split_tensor(
    argument: relax.Expr, parameters: list[relax.Var], definitions: Definitions
) -> tuple[relax.Expr, relax.Var | None]:
    """Return the sums behind the addition of an input of the same shape; else the argument."""
    call = definitions.get(argument)
    if call is None or operator_name(call) != "relax.add":
        return argument, None
    for sums, added in (call.args, reversed(call.args)):
        if added in parameters and static_shape(added) == static_shape(call):
            return sums, added
    return argument, None


def split_constant(
    argument: relax.Expr, definitions: Definitions
) -> tuple[tvm.ir.Call | None, Array]:
    """Return the call behind the addition of a constant, and that; zero where there is none."""
    call = definitions.get(argument)
    if call is not None and operator_name(call) == "relax.add":
        for sums, added in (call.args, reversed(call.args)):
            constant = definitions.get(added, added)
            if isinstance(constant, Constant):
                return definitions.get(sums), constant_array(constant)
    return call, np.zeros(1, "float32")


def spread_bias(bias: Array, channels: int) -> Array | None:
    """Return a number for each channel; None for a constant that differs by more than them."""
    if bias.size == 1:
        return np.full(channels, bias.item(), "float32")
    return bias.reshape(-1) if bias.size == bias.shape[-1] == channels else None


def describe_anchor(anchor: tvm.ir.Call | None, definitions: Definitions) -> dict[str, Any] | None:
    """Return the shape and weights of a float32 convolution or product with constants.

    A product is a convolution of one tap: its rows are pixels of one line.
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
        shape = describe_convolution(anchor, array)
        kind = KINDS.get(shape["kind"]) if shape else None
        return {**shape, "kind": kind} if shape and kind else None
    moved, axes = read_data(anchor, definitions)
    if axes == TO_FIRST and array.ndim == 2:
        _, height, width, channels = static_shape(moved)
        rows = array.reshape(channels, height, width, -1)
        array = rows.transpose(1, 2, 0, 3).reshape(array.shape)
    shape = describe_product(anchor, array)
    return shape and {**lay_rows(shape), "kind": LayerKind.FLOAT_CONV2D}
