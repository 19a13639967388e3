"""Reads a region as a layer of signs: its inputs and its weights are -1 and 1, times scales.

QONNX's BipolarQuant becomes ``where(x < 0, -1, 1)``. The next BipolarQuant compares the scaled sums
of a layer with 0. Operators with constants, such as a batch normalization, may come between them.
The build computes the float32 result for each possible sum of each channel. If the sign changes
once, the C compares the sum with a threshold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.ir.chains import CONVOLUTION, Definitions, list_definitions
from firmwright.ir.layer import Array, BinaryLayer, LayerKind, LinearLayer
from firmwright.ir.nodes import Call, Expr, Function
from firmwright.ir.operators import RESHAPES
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, static_shape
from firmwright.lowering.integer_layers import make_convolution, make_product, read_quantized

STEPS = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.divide,
}

MOVES = (*RESHAPES, "relax.permute_dims", "relax.nn.max_pool2d")
"""Operators whose results are some of their inputs."""


def returns_signs(function: Function) -> bool:
    """Return whether the only result of a function consists of -1 and 1."""
    results = function.body.body.fields
    definitions = list_definitions(function)
    return (
        len(results) == 1
        and read_sign(skip_moves(results[0], definitions), definitions) is not None
    )


def skip_moves(value: Expr, definitions: Definitions) -> Expr:
    while (call := definitions.get(value)) is not None and operator_name(call) in MOVES:
        value = call.args[0]
    return value


def read_sign(value: Expr, definitions: Definitions) -> Expr | None:
    """Return the value whose sign a value is, with 1 for zero, or None for other values."""
    chosen = definitions.get(value)
    if chosen is None or operator_name(chosen) != "relax.where":
        return None
    below = definitions.get(chosen.args[0])
    if below is None or operator_name(below) != "relax.less":
        return None
    stated = [read_scalar(v, definitions) for v in (below.args[1], *chosen.args[1:])]
    return below.args[0] if stated == [0, -1, 1] else None


def read_constant(value: Expr, definitions: Definitions) -> Array | None:
    bound = definitions.get(value, value)
    return constant_array(bound) if isinstance(bound, Constant) else None


def read_scalar(value: Expr, definitions: Definitions) -> float | None:
    array = read_constant(value, definitions)
    return float(array.item()) if array is not None and array.size == 1 else None


def read_binary_layer(function: Function) -> BinaryLayer | None:
    """Return the layer that a function computes if its input consists of signs, or None."""
    results = function.body.body.fields
    if len(function.params) != 1 or len(results) != 1 or dtype_of(function.params[0]) != "int8":
        return None
    definitions = list_definitions(function)
    compared = read_sign(results[0], definitions)
    value, steps = results[0] if compared is None else compared, list[Call]()
    while (call := definitions.get(value)) is not None and operator_name(call) in STEPS:
        variable = [a for a in call.args if read_constant(a, definitions) is None]
        if len(variable) != 1:
            return None
        steps.insert(0, call)
        value = variable[0]
    products = read_products(value, function, definitions)
    if products is None or (compared is None and steps):
        return None
    linear, scales = products
    if compared is None:
        return make_binary(linear, scales, "float32")
    return find_thresholds(linear, scales, steps, definitions)


def read_products(
    value: Expr, function: Function, definitions: Definitions
) -> tuple[LinearLayer, Array] | None:
    """Return the sums of signs that a value is, and the scale of each channel's sums."""
    anchor = definitions.get(value)
    if anchor is None or operator_name(anchor) not in (CONVOLUTION, "relax.matmul"):
        return None
    moved = list[Call]()
    source = anchor.args[0]
    while (call := definitions.get(source)) is not None and operator_name(call) in MOVES[:-1]:
        moved.append(call)
        source = call.args[0]
    data, weights = read_quantized(source, definitions), read_quantized(anchor.args[1], definitions)
    if data is None or weights is None or not isinstance(weights.data, Constant):
        return None
    plain = data.is_per_tensor and not data.zero_point.any() and not weights.zero_point.any()
    values = np.unique(constant_array(weights.data)).tolist()
    is_read = data.data.same_as(function.params[0])
    if not plain or not is_read or not {*values} <= {-1, 1}:
        return None
    if operator_name(anchor) == CONVOLUTION:
        linear = None if moved else make_convolution(anchor, weights, "NHWC")
        if linear is None or linear.kind is not LayerKind.CONV2D:
            return None
    else:
        linear = make_product(anchor, weights)
        if linear is None or linear.batch != 1 or linear.kind is not LayerKind.DENSE:
            return None
        linear = order_weights(linear, moved, static_shape(function.params[0]))
    return linear, np.resize(data.scale * weights.scale, linear.out_channels).astype("float32")


def order_weights(linear: LinearLayer, moved: list[Call], shape: tuple[int, ...]) -> LinearLayer:
    """Return the products with the weights in the order of the input before it is transposed."""
    order = np.arange(linear.channels).reshape(shape)
    for call in reversed(moved):
        if operator_name(call) != "relax.permute_dims":
            order = order.reshape(static_shape(call))
            continue
        axes = call.attrs.axes  # without axes, the operator reverses them
        order = order.transpose(None if axes is None else [int(axis) for axis in axes])
    weights = np.empty_like(linear.weights)
    weights[..., order.reshape(-1)] = linear.weights
    return replace(linear, weights=weights)


def find_thresholds(
    linear: LinearLayer, scales: Array, steps: list[Call], definitions: Definitions
) -> BinaryLayer | None:
    """Return the layer whose results are signs, or None if a sign changes more than once."""
    sums = np.arange(-linear.taps, linear.taps + 1).astype("float32")[:, None]
    values = sums * scales
    for call in steps:
        left, right = (to_channels(a, values, linear, definitions) for a in call.args)
        if left is None or right is None:
            return None
        values = STEPS[operator_name(call)](left, right).astype("float32")
    positive = np.broadcast_to(values >= 0, (len(sums), linear.out_channels))
    if np.isnan(values).any() or (positive[1:] != positive[:-1]).sum(0).max() > 1:
        return None
    falls = positive[0] & ~positive[-1]
    # The sum of the negated weights is the negated sum.
    rising = np.where(falls, positive[::-1], positive)
    thresholds = (~rising).sum(0) - linear.taps
    weights = linear.weights * np.where(falls, -1, 1)[:, None, None, None]
    return make_binary(replace(linear, weights=weights, bias=thresholds), scales, "int8")


def to_channels(
    operand: Expr, values: Array, linear: LinearLayer, definitions: Definitions
) -> Array | None:
    """Return a constant as one number per channel, or None if it differs along other axes.

    The other operand is ``values``, the numbers that an operator reads.
    """
    array = read_constant(operand, definitions)
    if array is None:
        return values
    is_last = array.size == 1 or array.shape[-1] == linear.out_channels == array.size
    return array.reshape(-1) if is_last else None


def make_binary(linear: LinearLayer, scales: Array, dtype: str) -> BinaryLayer:
    sums = linear.list_sums(kind=LayerKind.BINARY)
    return BinaryLayer(**sums, scales=scales, input_dtype="int8", output_dtype=dtype)
