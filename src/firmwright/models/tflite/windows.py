"""Corrects TFLite operators that add consecutive elements. The sums have TFLite's order."""

from __future__ import annotations

from typing import Any

import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.models.tflite.data_movement import shape_of

QUANTIZED = (
    "is quantized, which LiteRT, the reference, does not support: keep the operator in float32"
)


def convert_cumulative_sum(converter: Any, op: Any) -> relax.Expr:
    """Convert CUMSUM, because TVM cannot lower its cumsum to loops, and has no reversed cumsum.

    Source: tensorflow/lite/kernels/internal/reference/cumsum.h.
    """
    source, axis_tensor = converter.get_input_tensors(op)
    if source.qnn_params is not None:
        raise UserError(QUANTIZED)
    options = converter._get_builtin_options(op, tflite.CumsumOptions)
    axis = int(converter.get_tensor_value(axis_tensor).reshape(-1)[0])
    axis %= len(shape_of(converter, source))

    def accumulate(data: te.Tensor) -> te.Tensor:
        length = int(data.shape[axis])
        step = te.reduce_axis((0, length), "step")

        def total(*at: Any) -> Any:
            position = length - 1 - step if options.Reverse() else step
            after, before = (position, at[axis]) if options.Reverse() else (at[axis], position)
            counted = before < after if options.Exclusive() else before <= after
            value = data(*at[:axis], position, *at[axis + 1 :])
            return te.sum(te.if_then_else(counted, value, tirx.const(0, data.dtype)), axis=step)

        return te.compute(data.shape, total, "cumulated")

    given = converter.bb.emit(converter.get_tensor_expr(source))
    return converter.bb.emit_te(accumulate, given, primfunc_name_hint="cumsum")


def convert_local_response_normalization(converter: Any, op: Any) -> relax.Expr:
    """Convert LOCAL_RESPONSE_NORMALIZATION, because TVM's divisors at the ends differ.

    TVM divides windows at the ends by fewer channels.

    TFLite omits the channel at distance ``radius`` after the center. Source:
    tensorflow/lite/kernels/internal/reference/reference_ops.h (LocalResponseNormalization).
    """
    (source,) = converter.get_input_tensors(op)
    if source.qnn_params is not None:
        raise UserError(QUANTIZED)
    options = converter._get_builtin_options(op, tflite.LocalResponseNormalizationOptions)
    radius = options.Radius()

    def normalize(data: te.Tensor) -> te.Tensor:
        channels = int(data.shape[-1])
        offset = te.reduce_axis((0, 2 * radius), "offset")

        def square(*at: Any) -> Any:
            channel = at[-1] + offset - radius
            value = data(*at[:-1], te.max(te.min(channel, channels - 1), 0))
            inside = te.all(channel >= 0, channel < channels)
            return te.sum(te.if_then_else(inside, value * value, 0.0), axis=offset)

        sums = te.compute(data.shape, square, "squares")
        bias, alpha, power = (
            tirx.const(v, "float32") for v in (options.Bias(), options.Alpha(), -options.Beta())
        )
        return te.compute(
            data.shape, lambda *at: data(*at) * te.power(bias + alpha * sums(*at), power), "scaled"
        )

    given = converter.bb.emit(converter.get_tensor_expr(source))
    return converter.bb.emit_te(normalize, given, primfunc_name_hint="normalize")
