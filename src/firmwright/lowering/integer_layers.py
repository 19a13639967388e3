"""Reads a region as one integer layer.

A layer is a convolution or a product, an optional bias and activation, and a quantization. A test
checks that the results equal the results of :mod:`firmwright.lowering.integer_arithmetic`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import (
    BYTES,
    CONVOLUTION,
    INT32_LIMIT,
    PRODUCT,
    Definitions,
    list_definitions,
    skip_clips,
    skip_reshapes,
    split_addition,
)
from firmwright.ir.layer import (
    WIDE_KINDS,
    Array,
    Layer,
    LayerKind,
    LayerRounding,
    LinearLayer,
    Scaling,
)
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    operator_name,
    static_shape,
)
from firmwright.lowering.kernels.fixed_point import (
    SHORTENED_BITS,
    find_tie_direction,
    shorten_mantissas,
    to_fixed_point,
)
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    RoundFunction,
    read_dequantize,
    read_output_params,
)
from firmwright.lowering.kernels.requantization import find_quotient
from firmwright.lowering.kernels.rounding import fuse_activation
from firmwright.lowering.kernels.tables import round_half_away
from firmwright.lowering.layer_arithmetic import fold_constant_channels

ACTIVATIONS = (*BYTES, "int16")

CHANNELS_LAST, CHANNELS_FIRST = "NHWC", "NCHW"

WIDE_LIMIT = 2**46
"""Sums of 16-bit activations stay below this limit.

Sums below the limit can be scaled in two halves of 64 bits.
"""

ROWS_OF_A_PICTURE = 4
"""The minimum number of rows for which a matrix product becomes a convolution.

The convolution has one pixel per row.
"""


def read_layer(
    function: relax.Function, rounding: str, layout: str = CHANNELS_LAST
) -> Layer | None:
    """Return the layer that a region's function computes, or None for other functions.

    ``rounding`` is the recipe's rounding, "tflite" or "onnx". ``layout`` is the layout of the
    images that a convolution reads and writes.
    """
    quantized_value = find_quantized(function, rounding, inputs=1, dtypes=ACTIVATIONS)
    if quantized_value is None:
        return None
    definitions, argument, params = quantized_value
    sums, bias = split_addition(argument, definitions, lambda v: read_bias(v, definitions))
    anchor = definitions.get(sums)
    operands = read_operands(anchor, definitions)
    if anchor is None or operands is None:
        return None
    data, weights = operands
    if not reads_parameter(data.data, function.params[0], definitions):
        return None
    if operator_name(anchor) == CONVOLUTION:
        linear = make_convolution(anchor, weights, layout)
    else:
        linear = make_product(anchor, weights)
    if linear is None:
        return None
    return make_layer(linear, operator_name(anchor), data, weights, bias, params, rounding)


def find_quantized(
    function: relax.Function, rounding: str, inputs: int, dtypes: Sequence[str] = BYTES
) -> tuple[Definitions, relax.Expr, OutputQuantParams] | None:
    """Return the definitions, the value that a function quantizes, and the output parameters.

    The definitions map the function's variables to their values. The result is None unless the
    function has ``inputs`` parameters and only one result, which has one of the ``dtypes``.
    """
    results = function.body.body.fields
    if len(function.params) != inputs or len(results) != 1:
        return None
    definitions = list_definitions(function)
    output = read_output(results[0], definitions, rounding, dtypes)
    return None if output is None else (definitions, *output)


def find_quantized_call(
    function: relax.Function, rounding: str, inputs: int, operators: Collection[str]
) -> tuple[Definitions, tvm.ir.Call, OutputQuantParams] | None:
    """Return the call of one of the operators if the function quantizes the call's result to bytes.

    The other results are the results of :func:`find_quantized`.
    """
    quantized_value = find_quantized(function, rounding, inputs)
    call = None if quantized_value is None else quantized_value[0].get(quantized_value[1])
    if quantized_value is None or call is None or operator_name(call) not in operators:
        return None
    return quantized_value[0], call, quantized_value[2]


def read_output(
    result: relax.Expr, definitions: Definitions, rounding: str, dtypes: Sequence[str]
) -> tuple[relax.Expr, OutputQuantParams] | None:
    """Return the value that a region's result quantizes, and the output's parameters."""
    result, bounds = skip_clips(result, definitions, reshapes=True)
    call = definitions.get(result)
    if call is None or operator_name(call) != "relax.quantize":
        return None
    params = read_output_params(call)
    if params is None or params.dtype not in dtypes:
        return None
    nearest: RoundFunction = round_half_away if rounding == "tflite" else np.rint
    argument, params = fuse_activation(definitions, call.args[0], params, nearest)
    low = max([params.low, *(int(np.ceil(b)) for b, _ in bounds if np.isfinite(b))])
    high = min([params.high, *(int(np.floor(b)) for _, b in bounds if np.isfinite(b))])
    if low > high:
        return None
    return argument, OutputQuantParams(params.dtype, params.scale, params.zero_point, low, high)


def read_bias(added: relax.Expr, definitions: Definitions) -> QuantizedTensor | None:
    """Return the constant integers that a dequantize operator reads, or None."""
    bias = read_quantized(added, definitions)
    return bias if bias is not None and isinstance(bias.data, Constant) else None


def read_quantized(argument: relax.Expr, definitions: Definitions) -> QuantizedTensor | None:
    """Return the integers that a dequantize operator with constant parameters reads, or None."""
    call = definitions.get(argument)
    if call is None or operator_name(call) != "relax.dequantize":
        return None
    data = call.args[0]
    bound = definitions.get(data)
    return read_dequantize(call, bound if isinstance(bound, Constant) else data)


def read_bytes(argument: relax.Expr, definitions: Definitions) -> QuantizedTensor | None:
    """Return the bytes that a per-tensor dequantize operator reads, or None."""
    data = read_quantized(argument, definitions)
    if data is None or not data.is_per_tensor or dtype_of(data.data) not in BYTES:
        return None
    return data


def read_operands(
    anchor: tvm.ir.Call | None, definitions: Definitions
) -> tuple[QuantizedTensor, QuantizedTensor] | None:
    """Return an anchor's activations and constant 8-bit weights, or None for other operands.

    All activations have one scale and one zero point.
    """
    if anchor is None or operator_name(anchor) not in (CONVOLUTION, PRODUCT):
        return None
    data = read_quantized(skip_reshapes(anchor.args[0], definitions), definitions)
    weights = read_quantized(anchor.args[1], definitions)
    if data is None or weights is None or not isinstance(weights.data, Constant):
        return None
    usable = data.is_per_tensor and data.width > 0 and weights.width == 8
    return (data, weights) if usable else None


def reads_parameter(data: relax.Expr, parameter: relax.Var, definitions: Definitions) -> bool:
    return bool(skip_reshapes(data, definitions).same_as(parameter))


def make_convolution(
    call: tvm.ir.Call, weights: QuantizedTensor, layout: str
) -> LinearLayer | None:
    """Return the sums of a convolution without a bias, or None for another layout of images."""
    kernel_layout = str(call.attrs.kernel_layout)
    if not weights.is_per_tensor and weights.axis != kernel_layout.index("O"):
        return None
    return describe_convolution(call, center(weights), layout)


def describe_convolution(
    call: tvm.ir.Call, weights: Array, layout: str = CHANNELS_LAST
) -> LinearLayer | None:
    """Return the sums of a convolution with these weights.

    The result is None if the images have another layout.
    """
    attributes = call.attrs
    out_layout = str(attributes.out_layout) or str(attributes.data_layout)
    if str(attributes.data_layout) != layout or out_layout != layout:
        return None
    kernel_layout = str(attributes.kernel_layout)
    if sorted(kernel_layout) != list("HIOW"):
        return None
    axes = [layout.index(axis) for axis in CHANNELS_LAST]
    batch, height, width, channels = (static_shape(call.args[0])[axis] for axis in axes)
    _, out_height, out_width, out_channels = (static_shape(call)[axis] for axis in axes)
    values = weights.transpose([kernel_layout.index(axis) for axis in "OHWI"])
    groups = int(attributes.groups)
    kind = LayerKind.CONV2D if groups == 1 else LayerKind.GROUPED_CONV2D
    if groups == channels == out_channels and groups > 1:
        kind = LayerKind.DEPTHWISE_CONV2D
    top, left, bottom, right = attributes.padding
    return LinearLayer(
        kind=kind,
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        out_channels=out_channels,
        out_height=out_height,
        out_width=out_width,
        kernel=(values.shape[1], values.shape[2]),
        strides=(int(attributes.strides[0]), int(attributes.strides[1])),
        padding=(int(top), int(left), int(bottom), int(right)),
        dilation=(int(attributes.dilation[0]), int(attributes.dilation[1])),
        weights=values,
        bias=np.zeros(out_channels, values.dtype),
    )


def make_product(call: tvm.ir.Call, weights: QuantizedTensor) -> LinearLayer | None:
    """Return the sums, without a bias, of a product with an (I, O) matrix."""
    if not (weights.is_per_tensor or weights.axis == 1):
        return None
    sums = describe_product(call, center(weights))
    if sums is None or sums.batch < ROWS_OF_A_PICTURE:
        return sums
    return lay_rows(sums, LayerKind.CONV2D)


def describe_product(call: tvm.ir.Call, weights: Array) -> LinearLayer | None:
    """Return the sums of a product, or None if the weights are not one matrix."""
    rows, matrix = static_shape(call.args[0]), static_shape(call.args[1])
    return make_dense(int(np.prod(rows[:-1])), weights.T) if len(matrix) == 2 else None


def make_dense(batch: int, weights: Array) -> LinearLayer:
    """Return the sums of a dense layer with (O, I) weights and no bias."""
    outputs, inputs = weights.shape
    return LinearLayer(
        kind=LayerKind.DENSE,
        batch=batch,
        channels=inputs,
        height=1,
        width=1,
        out_channels=outputs,
        out_height=1,
        out_width=1,
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        weights=weights.reshape(outputs, 1, 1, inputs),
        bias=np.zeros(outputs, weights.dtype),
    )


def lay_rows(sums: LinearLayer, kind: LayerKind) -> LinearLayer:
    return replace(sums, kind=kind, batch=1, width=sums.batch, out_width=sums.batch)


def center(weights: QuantizedTensor) -> npt.NDArray[np.int64]:
    values = constant_array(weights.data).astype("int64")
    centered: npt.NDArray[np.int64] = values - weights.reshape_for_broadcast(weights.zero_point)
    return centered


def make_layer(
    linear: LinearLayer,
    operator: str,
    data: QuantizedTensor,
    weights: QuantizedTensor,
    bias: QuantizedTensor | None,
    params: OutputQuantParams,
    rounding: str,
) -> Layer | None:
    """Return the layer that computes the sums, or None if a sum might not fit its type."""
    values, channels = linear.weights, linear.out_channels
    largest = int(values[0].size) * data.largest * weights.largest
    limit = find_limit(data, params)
    if largest >= limit or int(values.min()) < -128 or int(values.max()) > 127:
        return None
    scale = data.scale * weights.scale
    added = np.zeros(channels, "int64")
    if bias is not None:
        same = np.allclose(scale, bias.scale, rtol=1e-5, atol=0.0)
        if not same or bias.zero_point.any() or dtype_of(bias.data) != "int32":
            return None
        added = constant_array(bias.data).astype("int64").reshape(-1)
        largest += bias.largest
        if added.size != channels or largest >= limit:
            return None
    sums = QuantizedTensor(
        data.data, scale, np.zeros(1, "int64"), 0, largest, operator, dtype_of(data.data)
    )
    scaling = make_scaling(sums, params, rounding, channels)
    kind = WIDE_KINDS.get(linear.kind) if data.width == 16 else linear.kind
    if scaling is None or kind is None:
        return None
    step = Fraction(float(data.scale[0])) / Fraction(float(params.scale))
    scaling = replace(scaling, weights=np.resize(weights.scale, channels), step=step)
    layer = Layer(
        **linear.list_sums(kind=kind, bias=added),
        input_dtype=dtype_of(data.data),
        input_zero_point=int(data.zero_point[0]),
        scaling=scaling,
        output_dtype=params.dtype,
        zero_point=params.zero_point,
        low=params.low,
        high=params.high,
    )
    return fold_constant_channels(layer)


def find_limit(data: QuantizedTensor, params: OutputQuantParams) -> int:
    """Return the maximum magnitude of the sums, or 0 if the width of the result is not supported.

    8-bit activations need an 8-bit result. 16-bit activations need an int16 result with the zero
    point 0.
    """
    if data.width == 8:
        return INT32_LIMIT if params.dtype in BYTES else 0
    return WIDE_LIMIT if params.dtype == "int16" and params.zero_point == 0 else 0


def make_scaling(
    sums: QuantizedTensor, params: OutputQuantParams, rounding: str, channels: int
) -> Scaling | None:
    """Return the factors that convert sums to steps of the output.

    The result is None if a factor is 1 or more, or if ties are rounded neither up nor to even. Sums
    of 16-bit activations are supported only in TFLite's rounding.
    """
    if rounding == "onnx" and sums.has_wide_sums:
        return None
    if rounding == "onnx":
        factors = sums.scale.astype("float32") / params.scale
        zeros = np.zeros(channels, "int64")
        return Scaling(LayerRounding.FLOAT, zeros, zeros, np.resize(factors, channels))
    quotient = find_quotient(sums, params, single=False)
    if quotient.max() >= 1:  # these scales would enlarge sums
        return None
    fixed = to_fixed_point(quotient)
    once = sums.operator == PRODUCT
    if once and find_tie_direction(quotient, fixed, sums.largest):
        return None
    mantissas = fixed.mantissa.astype("int64")
    if sums.has_wide_sums and not once:
        once, mantissas = True, shorten_mantissas(fixed).mantissa.astype("int64") << SHORTENED_BITS
    kind = LayerRounding.ONCE if once else LayerRounding.TWICE
    shifts, factors = -fixed.shift.astype("int64"), quotient.astype("float32")
    mantissas, shifts, factors = (np.resize(a, channels) for a in (mantissas, shifts, factors))
    return Scaling(kind, mantissas, shifts, factors)
