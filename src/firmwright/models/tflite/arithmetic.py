"""Converts arithmetic for which TVM's operators fail or differ from LiteRT.

The first sentence of each docstring describes TVM's error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.tflite.checks import RENEW
from firmwright.models.tflite.data_movement import has_same_qnn_params, read_inputs, shape_of
from firmwright.models.tflite.integer_products import read_zero_point

SEGMENTS: dict[str, Callable[..., Any]] = {
    "UNSORTED_SEGMENT_MAX": te.max,
    "UNSORTED_SEGMENT_MIN": te.min,
    "UNSORTED_SEGMENT_PROD": te.comm_reducer(
        lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), "prod"
    ),
    "UNSORTED_SEGMENT_SUM": te.sum,
}
"""The reductions of rows that have the same number."""


def convert_segments(converter: Any, op: Any) -> relax.Expr:
    """Convert UNSORTED_SEGMENT_*, because TVM rejects negative numbers. LiteRT omits their rows."""
    source, numbers, segments = converter.get_input_tensors(op)
    data, rows = (converter.bb.emit(converter.get_tensor_expr(t)) for t in (source, numbers))
    reduce, rank = SEGMENTS[converter.get_op_code_str(op)], len(shape_of(converter, numbers))
    count = converter.get_tensor_value(segments).item()
    shape = [count, *static_shape(data)[rank:]]
    known = np.arange(count, dtype=dtype_of(rows)).reshape(-1, *[1] * rank)
    of_segment = relax.op.equal(relax.op.expand_dims(rows, 0), relax.const(known))

    def compute(data: te.Tensor, of_segment: te.Tensor) -> te.Tensor:
        axes = [te.reduce_axis((0, data.shape[i])) for i in range(rank)]
        none = reduce(tirx.const(0, data.dtype), axis=axes).combiner.identity_element[0]

        def element(segment: Any, *rest: Any) -> Any:
            inside = of_segment(segment, *axes)
            return reduce(tirx.Select(inside, data(*axes, *rest), none), axis=axes)

        return te.compute(shape, element, "segments")

    mask = converter.bb.emit(of_segment)
    return converter.bb.emit_te(compute, data, mask, primfunc_name_hint="segments")


def convert_floor_division(converter: Any, op: Any) -> relax.Expr:
    """Convert FLOOR_DIV, because TVM divides floats in float32, but LiteRT divides in double."""
    pair = read_inputs(converter, op)
    (target,) = converter.get_output_tensors(op)
    if converter.get_tensor_type_str(target.tensor.Type()) != "float32":
        return relax.op.floor_divide(*pair)
    quotient = relax.op.divide(*(relax.op.astype(value, "float64") for value in pair))
    whole = converter.bb.normalize(relax.op.floor(converter.bb.normalize(quotient)))
    return relax.op.astype(whole, "float32")


def convert_floor_mod(converter: Any, op: Any) -> relax.Expr:
    """Convert FLOOR_MOD, because TVM rounds the quotient of floats, but LiteRT calls fmod."""
    first, second = read_inputs(converter, op)
    (target,) = converter.get_output_tensors(op)
    if converter.get_tensor_type_str(target.tensor.Type()) != "float32":
        return relax.op.floor_mod(first, second)
    shape = shape_of(converter, target)
    pair = [converter.bb.emit(relax.op.broadcast_to(value, shape)) for value in (first, second)]

    def compute(dividend: te.Tensor, divisor: te.Tensor) -> te.Tensor:
        rest = te.compute(
            shape,
            lambda *at: tirx.call_pure_extern("float32", "fmodf", dividend(*at), divisor(*at)),
        )

        def element(*at: Any) -> Any:
            differ = tirx.all(rest(*at) != 0, (divisor(*at) < 0) != (rest(*at) < 0))
            return tirx.Select(differ, rest(*at) + divisor(*at), rest(*at))

        return te.compute(shape, element, "rest")

    return converter.bb.emit_te(compute, *pair, primfunc_name_hint="floor_mod")


def keeps_meaning(converter: Any, kind: str, tensors: Sequence[Any]) -> bool:
    """Return whether an operator on stored integers is also the operator on real numbers."""
    if not has_same_qnn_params(converter, tensors):
        return False
    return kind in ("MAXIMUM", "MINIMUM") or (kind == "NEG" and not read_zero_point(tensors[0]))


def convert_negative(converter: Any, op: Any) -> relax.Expr:
    """Convert NEG, because TVM negates the smallest integer to the largest, LiteRT to itself."""
    (source,) = converter.get_input_tensors(op)
    return relax.op.negative(converter.get_tensor_expr(source))


def convert_power(converter: Any, op: Any) -> relax.Expr:
    """Convert POW, because TVM has no power of integers, which LiteRT computes in double."""
    pair = read_inputs(converter, op)
    (target,) = converter.get_output_tensors(op)
    dtype = converter.get_tensor_type_str(target.tensor.Type())
    if "int" not in dtype:
        return relax.op.power(*pair)
    real = relax.op.power(*(relax.op.astype(value, "float64") for value in pair))
    return relax.op.astype(converter.bb.normalize(real), dtype)


def convert_stablehlo_product(converter: Any, op: Any) -> relax.Expr:
    """Convert STABLEHLO_MULTIPLY, because TVM multiplies truth values, which C compilers reject."""
    pair = read_inputs(converter, op)
    (target,) = converter.get_output_tensors(op)
    is_truth = converter.get_tensor_type_str(target.tensor.Type()) == "bool"
    return relax.op.logical_and(*pair) if is_truth else relax.op.multiply(*pair)


def convert_fake_quant(converter: Any, op: Any) -> relax.Expr:
    """Convert FAKE_QUANT, because TVM rounds halves to even numbers, LiteRT away from zero.

    Source: tensorflow/lite/kernels/internal/reference/fake_quant.h, in float32.
    """
    (source,) = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.FakeQuantOptions)
    low, high = np.float32(options.Min()), np.float32(options.Max())
    if not low < high:
        raise UserError(f"its range is {low} to {high}; min must be less than max: {RENEW}")
    if options.NarrowRange():
        raise UserError(
            "it has a narrow range, which LiteRT does not compute: convert the model without it"
        )
    steps = np.float32((1 << options.NumBits()) - 1)
    scale = (high - low) / steps
    zero = np.floor(np.clip(-low / scale, 0, steps) + np.float32(0.5))
    lowest, highest = (float(np.float32((end - zero) * scale)) for end in (0, steps))
    data = converter.bb.emit(converter.get_tensor_expr(source))

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            bounds = [tirx.const(end, "float32") for end in (lowest, highest)]
            above = tirx.min(tirx.max(data(*at), bounds[0]), bounds[1]) - bounds[0]
            inverse = tirx.const(float(np.float32(1) / scale), "float32")
            whole = tirx.call_pure_extern("float32", "roundf", above * inverse)
            return whole * tirx.const(float(scale), "float32") + bounds[0]

        return te.compute(data.shape, element, "fake_quantized")

    return converter.bb.emit_te(compute, data, primfunc_name_hint="fake_quant")


def convert_right_shift(converter: Any, op: Any) -> relax.Expr:
    """Convert RIGHT_SHIFT, because TVM does not limit the count.

    TFLite limits the count to the range from 0 to the number of bits minus 1.
    """
    data, count = read_inputs(converter, op)
    dtype = str(count.ty.dtype)
    most = np.iinfo(dtype).bits - 1
    low, high = (relax.const(np.array(limit, dtype)) for limit in (0, most))
    limited = relax.op.minimum(relax.op.maximum(count, low), high)
    return relax.op.right_shift(data, limited)
