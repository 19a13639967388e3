"""Converts arithmetic for which TVM's operators fail or differ from LiteRT.

The first sentence of each docstring describes TVM's error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx

from firmwright.ir.relax import static_shape
from firmwright.models.tflite.data_movement import has_same_qnn_params, shape_of
from firmwright.models.tflite.svdf import read_zero_point

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
    shape = [int(converter.get_tensor_value(segments)), *static_shape(data)[rank:]]

    def compute(data: te.Tensor, rows: te.Tensor) -> te.Tensor:
        axes = [te.reduce_axis((0, data.shape[i])) for i in range(rank)]
        none = reduce(tirx.const(0, data.dtype), axis=axes).combiner.identity_element[0]

        def element(segment: Any, *rest: Any) -> Any:
            found = rows(*axes) == segment
            return reduce(tirx.Select(found, data(*axes, *rest), none), axis=axes)

        return te.compute(shape, element, "segments")

    return converter.bb.emit_te(compute, data, rows, primfunc_name_hint="segments")


def convert_floor_mod(converter: Any, op: Any) -> relax.Expr:
    """Convert FLOOR_MOD, because TVM rounds the quotient of floats, but LiteRT calls fmod."""
    first, second = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
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
    pair = [converter.get_tensor_expr(t) for t in converter.get_input_tensors(op)]
    (target,) = converter.get_output_tensors(op)
    dtype = converter.get_tensor_type_str(target.tensor.Type())
    if "int" not in dtype:
        return relax.op.power(*pair)
    real = relax.op.power(*(relax.op.astype(value, "float64") for value in pair))
    return relax.op.astype(converter.bb.normalize(real), dtype)


def convert_stablehlo_product(converter: Any, op: Any) -> relax.Expr:
    """Convert STABLEHLO_MULTIPLY, because TVM multiplies truth values, which C compilers reject."""
    pair = [converter.get_tensor_expr(t) for t in converter.get_input_tensors(op)]
    (target,) = converter.get_output_tensors(op)
    is_truth = converter.get_tensor_type_str(target.tensor.Type()) == "bool"
    return relax.op.logical_and(*pair) if is_truth else relax.op.multiply(*pair)
