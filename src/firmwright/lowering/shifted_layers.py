"""Reads an integer region as one layer: sums of bytes, or sums multiplied, moved, shifted, clipped.

    sums int32 -> [astype int64] -> [multiply] -> [add] -> [right_shift] -> clip -> astype

Graphs of integers contain the constants of these operators. :mod:`firmwright.transforms.integers`
makes the operators and proves that they do not overflow.

If the sums are the results, their addition of a bias wraps. It then runs in uint32 between two
casts. A layer whose sums fit 31 bits does not need casts.
"""

from __future__ import annotations

import numpy as np

from firmwright.ir.chains import (
    BYTES,
    CONVOLUTION,
    PRODUCT,
    Definitions,
    list_definitions,
    skip_reshapes,
    split_addition,
)
from firmwright.ir.layer import Array, Layer, LayerKind, LayerRounding, LinearLayer, Scaling, Sums
from firmwright.ir.nodes import Call, Expr, Function, Var
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name
from firmwright.lowering.integer_layers import (
    CHANNELS_LAST,
    describe_convolution,
    describe_product,
    reads_parameter,
)
from firmwright.lowering.layer_arithmetic import fold_constant_channels

WORDS = ("int32", "uint32")

ARITHMETIC = ("relax.right_shift", "relax.add", "relax.multiply")
"""The operators that may follow the sums, from the last to the first."""


def read_shifted_layer(function: Function, layout: str = CHANNELS_LAST) -> Layer | None:
    """Return the layer that a region's function computes, or None for other functions.

    ``layout`` is the layout of the images that a convolution reads and writes.
    """
    results = function.body.body.fields
    if len(function.params) != 1 or len(results) != 1:
        return None
    definitions = list_definitions(function)
    clipped = read_clipped(results[0], definitions)
    if clipped is None:
        return None
    argument, low, high = clipped
    anchor, (shift, added, factor) = read_arithmetic(argument, definitions)
    if anchor is None or operator_name(anchor) not in (CONVOLUTION, PRODUCT):
        return None
    data, weights = anchor.args
    if not adds_products(anchor, weights, function.params[0], definitions):
        return None
    values = constant_array(weights).astype("int64")
    axis = -1
    if operator_name(anchor) == CONVOLUTION:
        linear = describe_convolution(anchor, values, layout)
        axis = layout.index("C") - len(layout)
    else:
        linear = describe_product(anchor, values)
    channels = 0 if linear is None else linear.out_channels
    numbers = [s for n in (shift, added, factor) if (s := spread(n, channels, axis)) is not None]
    if linear is None or len(numbers) < 3:
        return None
    return make_layer(linear, numbers, dtype_of(data), dtype_of(results[0]), (low, high))


def adds_products(anchor: Call, weights: Expr, parameter: Var, definitions: Definitions) -> bool:
    """Return whether an anchor adds products of a parameter's bytes and int8 constants in int32."""
    data = anchor.args[0]
    bytes_alone = dtype_of(data) in BYTES and dtype_of(weights) == "int8"
    constant = isinstance(weights, Constant) and dtype_of(anchor) == "int32"
    return bytes_alone and constant and reads_parameter(data, parameter, definitions)


def read_clipped(result: Expr, definitions: Definitions) -> tuple[Expr, int, int] | None:
    """Return a value that is clipped and cast to bytes, and the clip's limits.

    The result is None for other values.
    """
    call = definitions.get(skip_reshapes(result, definitions))
    if call is None or operator_name(call) != "relax.astype" or dtype_of(call) not in BYTES:
        return None
    clip = definitions.get(call.args[0])
    bounds = None if clip is None else read_clip_bounds(clip)
    limits = np.iinfo(dtype_of(call))
    if clip is None or bounds is None or bounds[0] < limits.min or bounds[1] > limits.max:
        return None
    return clip.args[0], int(bounds[0]), int(bounds[1])


def read_arithmetic(argument: Expr, definitions: Definitions) -> tuple[Call | None, list[Array]]:
    """Return the operand of a constant product, sum and shift, and the constants."""
    constants = [np.zeros(1, "int64"), np.zeros(1, "int64"), np.ones(1, "int64")]
    call = definitions.get(argument)
    for index, name in enumerate(ARITHMETIC):
        if call is not None and operator_name(call) == name and isinstance(call.args[1], Constant):
            constants[index] = constant_array(call.args[1]).astype("int64")
            call = definitions.get(call.args[0])
    if call is not None and operator_name(call) == "relax.astype":
        call = definitions.get(call.args[0])
    return call, constants


def spread(numbers: Array, channels: int, axis: int) -> Array | None:
    """Return one number per channel, along an axis from the end, or None for other shapes."""
    flat = numbers.reshape(-1)
    if flat.size == 1:
        return np.resize(flat, channels)
    along = numbers.ndim >= -axis and numbers.shape[axis] == channels
    return flat if along and flat.size == channels else None


def make_layer(
    linear: LinearLayer,
    numbers: list[Array],
    input_dtype: str,
    output_dtype: str,
    limits: tuple[int, int],
) -> Layer | None:
    """Return the layer that computes the sums, or None if its weights do not fit bytes.

    The sign of a negative factor moves to the weights. Whole multiples of the factor in the added
    number become the bias.
    """
    shifts, added, factors = numbers
    sign = np.where(factors < 0, -1, 1)
    weights = linear.weights * sign[:, None, None, None]
    factors = np.abs(factors)
    multipliers = np.maximum(factors, 1)
    weights = np.where((factors == 0)[:, None, None, None], 0, weights)
    if weights.max() > np.iinfo("int8").max:
        return None
    bias = added // multipliers
    scaling = Scaling(
        LayerRounding.SHIFT,
        multipliers,
        shifts,
        np.ldexp(multipliers.astype("float64"), -shifts.astype("int32")),
        added - bias * multipliers,
    )
    layer = Layer(
        **linear.list_sums(weights=weights, bias=bias),
        input_dtype=input_dtype,
        input_zero_point=0,
        scaling=scaling,
        output_dtype=output_dtype,
        zero_point=0,
        low=limits[0],
        high=limits[1],
    )
    return fold_constant_channels(layer)


def read_sums(function: Function) -> Sums | None:
    """Return the sums that a region's function computes, or None for other functions."""
    results = function.body.body.fields
    if len(function.params) != 1 or len(results) != 1 or dtype_of(results[0]) != "int32":
        return None
    definitions = list_definitions(function)

    def read_bias(value: Expr) -> Array | None:
        stored = skip_casts(value, definitions)
        return constant_array(stored) if isinstance(stored, Constant) else None

    sums, bias = split_addition(skip_casts(results[0], definitions), definitions, read_bias)
    anchor = definitions.get(skip_casts(sums, definitions))
    if anchor is None or operator_name(anchor) != PRODUCT:
        return None
    data, weights = anchor.args[0], skip_casts(anchor.args[1], definitions)
    if not adds_products(anchor, weights, function.params[0], definitions):
        return None
    linear = describe_product(anchor, constant_array(weights).astype("int64"))
    biases = np.zeros(1, "int64") if bias is None else bias.astype("int64").reshape(-1)
    if linear is None or biases.size not in (1, linear.out_channels):
        return None
    return Sums(
        **linear.list_sums(kind=LayerKind.SUMS, bias=np.resize(biases, linear.out_channels)),
        input_dtype=dtype_of(data),
        input_zero_point=0,
    )


def skip_casts(value: Expr, definitions: Definitions) -> Expr:
    """Return the 32-bit words before all casts between signed and unsigned types."""
    while (
        (call := definitions.get(value)) is not None
        and operator_name(call) == "relax.astype"
        and dtype_of(call) in WORDS
        and dtype_of(call.args[0]) in WORDS
    ):
        value = call.args[0]
    bound = definitions.get(value)
    return bound if isinstance(bound, Constant) else value
