"""Replaces operators that TVM 0.27 does not support or converts incorrectly.

After a fix in TVM, an entry of :data:`REWRITES` can be removed. The comment or docstring of an
entry describes TVM's error. ``tests/conformance`` tests all entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS
from firmwright.models.onnx.graph.blocks import (
    has_blocks,
    pack_product,
    rewrite_dequantize,
    rewrite_quantize,
)
from firmwright.models.onnx.graph.body import copy_node
from firmwright.models.onnx.graph.classical import CLASSICAL
from firmwright.models.onnx.graph.control import CONTROL
from firmwright.models.onnx.graph.linear import (
    rewrite_col2im,
    rewrite_det,
    rewrite_dft,
    rewrite_stft,
)
from firmwright.models.onnx.graph.microsoft import MICROSOFT, pack_product_of_bits
from firmwright.models.onnx.graph.normalizations import MOMENTS, NORMALIZATIONS, rewrite_batch_norm
from firmwright.models.onnx.graph.quantized_lstm import QUANTIZED_LSTM
from firmwright.models.onnx.graph.recurrent import RECURRENT
from firmwright.models.onnx.graph.reductions import RANKS, REDUCTIONS
from firmwright.models.onnx.graph.resize import rewrite_resize
from firmwright.models.onnx.graph.selections import SELECTIONS, repeat_single_pixels, rewrite_pad
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite, parse_rewrite
from firmwright.models.onnx.graph.string_bytes import STRINGS
from firmwright.models.onnx.graph.suppression import SUPPRESSION
from firmwright.models.onnx.graph.transformers import ATTENTION, EMBEDDINGS
from firmwright.models.onnx.graph.trees import TREES
from firmwright.models.onnx.graph.vector_machines import VECTOR_MACHINES
from firmwright.models.onnx.graph.windows import WINDOWS


def inline_definition(body: NodeBuilder) -> Nodes | None:
    """Replace the operator with ONNX's definition, which is a function."""
    return body.walk.function_body(body.node)


def rewrite_if(condition: Callable[[NodeBuilder], bool], rewrite: Rewrite) -> Rewrite:
    """Return a rewrite for nodes that meet the condition. TVM converts other nodes correctly."""
    return lambda body: rewrite(body) if condition(body) else None


def has_mode(mode: str) -> Callable[[NodeBuilder], bool]:
    return lambda body: body.attribute("mode", None) == mode


def is_float_modulo(body: NodeBuilder) -> bool:
    is_float = body.dtype(0).kind == "f" or is_16bit_float(body)
    return is_float and not body.attribute("fmod", 0)


def is_16bit_float(body: NodeBuilder) -> bool:
    return body.dtype(0).name in SIXTEEN_BIT_FLOATS


def rewrite_is_inf(body: NodeBuilder) -> Nodes | None:
    """Rewrite IsInf, because TVM ignores ``detect_negative`` and ``detect_positive``."""
    positive, negative = (body.attribute(f"detect_{s}", 1) for s in ("positive", "negative"))
    if positive and negative:
        return None
    limit = np.inf if positive else -np.inf if negative else np.nan  # NaN differs from every number
    constant = body.constant(limit, body.dtype(0))
    return body.finish(body.add("Equal", body.input(0), constant))


def rewrite_pow(body: NodeBuilder) -> Nodes | None:
    """Rewrite Pow, because TVM's ``power`` requires two floats of one type."""
    base, exponent = (body.walk.dtype(i) for i in body.node.input)
    if base == exponent and base.kind == "f":
        return None
    if base.kind == "f":
        return body.finish(raise_as(body, base, base))
    return body.finish(raise_integers(body))


def raise_integers(body: NodeBuilder) -> str:
    """Append integer powers, as in ONNX Runtime.

    Squares and cubes are products, which wrap around. Other powers are computed in double
    precision.
    """
    data, exponent = body.node.input
    known = body.walk.constants.get(exponent)
    rank = len(body.walk.shape(data) or ())
    if known is not None and known.size == 1 and known.ndim <= rank and known.item() in (2, 3):
        return multiply(body, data, int(known.item()))
    power = raise_as(body, np.dtype("double"), body.walk.dtype(data))
    for number in (2, 3):
        if known is None or (known == number).any():
            chosen = body.add("Equal", exponent, body.constant(number, body.walk.dtype(exponent)))
            power = body.add("Where", chosen, multiply(body, data, number), power)
    return power


def multiply(body: NodeBuilder, data: str, count: int) -> str:
    return reduce(lambda product, _: body.add("Mul", product, data), range(count - 1), data)


def raise_as(body: NodeBuilder, dtype: np.dtype[Any], result: np.dtype[Any]) -> str:
    """Append the node's power, which is computed in the float type ``dtype``."""
    to, back = (helper.np_dtype_to_tensor_dtype(d) for d in (dtype, result))
    power = body.add("Pow", *(body.add("Cast", i, to=to) for i in body.node.input))
    return body.add("Cast", power, to=back)


def rewrite_conv_integer(body: NodeBuilder) -> Nodes | None:
    """Rewrite ConvInteger as Conv.

    TVM does not support ConvInteger, but TVM's Conv accepts integers.
    """
    operands = []
    for position in (0, 1):
        number = body.cast(body.node.input[position], "int32")
        zero = body.input(position + 2)
        rank = len(body.walk.shape(body.node.input[position]) or ())
        if zero:
            along = body.constant([-1, *[1] * (rank - 1)], "int64")
            zero = body.add("Reshape", body.cast(zero, "int32"), along)
            number = body.add("Sub", number, zero)
        operands.append(number)
    stated = body.attributes()
    return body.finish(body.add("Conv", *operands, **stated))


def rewrite_conv_transpose(body: NodeBuilder) -> Nodes | None:
    """Rewrite ConvTranspose with ``output_shape``, which defines the pads.

    TVM ignores this attribute.
    """
    size = body.attribute("output_shape", None)
    shape, weights = (body.walk.shape(i) for i in body.node.input[:2])
    if not size or shape is None or weights is None:
        return None
    axes = len(shape) - 2
    strides = body.attribute("strides", [1] * axes)
    dilations = body.attribute("dilations", [1] * axes)
    extra = list(body.attribute("output_padding", [0] * axes))
    begin, end = [], []
    for i, wanted in enumerate(size[-axes:]):
        kernel = (weights[2 + i] - 1) * dilations[i] + 1
        total = strides[i] * (shape[2 + i] - 1) + extra[i] + kernel - wanted
        extra[i] += max(-total, 0)
        small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        upper = body.attribute("auto_pad", "NOTSET") == "SAME_UPPER"
        begin.append(small if upper else large)
        end.append(large if upper else small)
    dropped = ("output_shape", "auto_pad")
    return [copy_node(body.node, dropped, pads=[*begin, *end], output_padding=extra)]


INLINED_OPERATORS = """
    AffineGrid Attention BlackmanWindow CausalConvWithState Celu CenterCropPad HammingWindow
    HannWindow LinearAttention NegativeLogLikelihoodLoss RMSNormalization
    RotaryEmbedding SoftmaxCrossEntropyLoss SwiGLU Swish
    ai.onnx.preview.FlexAttention
"""
"""Operators that ONNX's definition replaces.

TVM's converter is missing, fails, or converts an operator of another domain.
"""

FLOORED_MODULO = """
    FlooredModulo (x, y) => (z) {
        r = Mod <fmod = 1> (x, y)
        zero = Sub (y, y)
        nothing = Constant <value = float {0.0}> ()
        none = CastLike (nothing, r)
        r_below = Less (r, none)
        y_below = Less (y, none)
        differ = Xor (r_below, y_below)
        exact = Equal (r, none)
        inexact = Not (exact)
        correct = And (differ, inexact)
        moved = Add (r, y)
        z = Where (correct, moved, r)
    }
"""

QUANTIZED_CONVOLUTION = """
    Convolution <auto_pad, dilations, group, kernel_shape, pads, strides>
    (x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b) => (y) {
        data = DequantizeLinear (x, x_scale, x_zero)
        weights = DequantizeLinear <axis = 0> (w, w_scale, w_zero)
        b_scale = Mul (x_scale, w_scale)
        bias = DequantizeLinear <axis = 0> (b, b_scale)
        sum = Conv <auto_pad: string = @auto_pad, dilations: ints = @dilations,
                    group: int = @group, kernel_shape: ints = @kernel_shape, pads: ints = @pads,
                    strides: ints = @strides> (data, weights, bias)
        y = QuantizeLinear (sum, y_scale, y_zero)
    }
"""

SHRINK = """
    Shrunk <bias, lambd> (x) => (y) {
        limit_value = Constant <value_float: float = @lambd> ()
        limit = CastLike (limit_value, x)
        bias_value = Constant <value_float: float = @bias> ()
        shift = CastLike (bias_value, x)
        nothing = Sub (limit, limit)
        low = Sub (nothing, limit)
        below = Less (x, low)
        above = Less (limit, x)
        raised = Add (x, shift)
        lowered = Sub (x, shift)
        inside = Where (above, lowered, nothing)
        y = Where (below, raised, inside)
    }
"""


def rewrite_quantized_product(body: NodeBuilder) -> Nodes:
    """Rewrite a QLinearMatMul.

    A QLinearMatMul has one scale per row of the first operand and per column of the second operand.
    A vector has only one scale.
    """

    def convert(operator: str, tensor: str, params: Sequence[str], axis: int) -> str:
        several = prod(body.walk.shape(params[0]) or ()) > 1
        return body.add(operator, tensor, *params, **({"axis": axis} if several else {}))

    left = convert("DequantizeLinear", body.input(0), body.node.input[1:3], -2)
    right = convert("DequantizeLinear", body.input(3), body.node.input[4:6], -1)
    product = body.add("MatMul", left, right)
    return body.finish(convert("QuantizeLinear", product, body.node.input[6:8], -2))


def compute_wide(body: NodeBuilder) -> Nodes:
    """Compute in float32, the type of the attributes, and cast the result to the data's type.

    TVM's converters use the type of the attributes or the type of the data for all constants.
    """
    data = body.input(0)
    wide = body.cast(data, "float32")
    stated = body.attributes()
    result = body.add(body.node.op_type, wide, **stated)
    kind = helper.np_dtype_to_tensor_dtype(body.walk.dtype(data))
    return body.finish(body.add("Cast", result, to=kind))


SCALES = {"Elu": (1.0, 1.0), "Selu": (1.67326319217681884765625, 1.05070102214813232421875)}
"""The default values of alpha and gamma. Elu has no gamma."""


def compute_exponential(body: NodeBuilder) -> Nodes:
    data = body.input(0)
    names = zip(("alpha", "gamma"), SCALES[body.node.op_type], strict=True)
    alpha, gamma = (body.constant(body.attribute(*name), "float64") for name in names)
    zero, one = (body.constant(number, "float64") for number in (0, 1))
    power = body.add("Sub", body.add("Exp", body.add("Min", data, zero)), one)
    below = body.add("Less", data, zero)
    result = body.add("Where", below, body.add("Mul", power, alpha), data)
    return body.finish(body.add("Mul", result, gamma))


def compute_threshold(body: NodeBuilder) -> Nodes:
    data = body.input(0)
    alpha, zero = (body.constant(n, "float64") for n in (body.attribute("alpha", 1.0), 0))
    return body.finish(body.add("Where", body.add("Less", alpha, data), data, zero))


def rewrite_by_width(compute_double: Rewrite) -> Rewrite:
    """Return a rewrite of an operator whose constants have 32 bits in TVM's converter.

    16-bit floats are computed in float32. ``compute_double`` rewrites operators in float64.
    """

    def rewrite(body: NodeBuilder) -> Nodes | None:
        if is_16bit_float(body):
            return compute_wide(body)
        return compute_double(body) if body.dtype(0) == np.float64 else None

    return rewrite


def rewrite_shrink(body: NodeBuilder) -> Nodes | None:
    is_integer = body.dtype(0).kind in "iu"
    return (compute_wide if is_integer else parse_rewrite(SHRINK))(body)


RUNTIME_REWRITES: dict[str, Rewrite] = {
    **ATTENTION,
    **EMBEDDINGS,
    **MICROSOFT,
    **NORMALIZATIONS,
}
REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(INLINED_OPERATORS.split(), inline_definition),
    "BatchNormalization": rewrite_batch_norm,
    "Col2Im": rewrite_col2im,
    "ConvInteger": rewrite_conv_integer,
    "ConvTranspose": rewrite_conv_transpose,
    "DFT": rewrite_dft,
    "Det": rewrite_det,
    "DequantizeLinear": rewrite_if(has_blocks, rewrite_dequantize),
    "IsInf": rewrite_is_inf,
    "MatMul": pack_product,
    # x - floor(x / y) * y is not the remainder of infinities.
    "Mod": rewrite_if(is_float_modulo, parse_rewrite(FLOORED_MODULO)),
    "GridSample": repeat_single_pixels,
    **MOMENTS,
    "Pad": rewrite_pad,
    "Pow": rewrite_pow,
    "QLinearConv": parse_rewrite(QUANTIZED_CONVOLUTION),
    "QLinearMatMul": rewrite_quantized_product,
    "QuantizeLinear": rewrite_if(has_blocks, rewrite_quantize),
    **CLASSICAL,
    **CONTROL,
    **QUANTIZED_LSTM,
    **RANKS,
    **RECURRENT,
    **REDUCTIONS,
    **RUNTIME_REWRITES,
    "com.microsoft.MatMulNBits": pack_product_of_bits,
    "Resize": rewrite_resize,
    **SELECTIONS,
    "STFT": rewrite_stft,
    **STRINGS,
    **SUPPRESSION,
    "Elu": rewrite_by_width(compute_exponential),
    "HardSigmoid": rewrite_if(is_16bit_float, compute_wide),
    "Selu": rewrite_by_width(compute_exponential),
    "ThresholdedRelu": rewrite_by_width(compute_threshold),
    "Shrink": rewrite_shrink,
    # Each step of ONNX's definition rounds to 16 bits.
    "Softmax": rewrite_if(is_16bit_float, inline_definition),
    # TVM ignores the mode CRD.
    "SpaceToDepth": rewrite_if(has_mode("CRD"), inline_definition),
    **TREES,
    "Upsample": rewrite_resize,
    **VECTOR_MACHINES,
    **WINDOWS,
}  # fmt: skip
