"""Converts RFFT2D along one axis, and the operators that read complex numbers.

In Relax, a tensor of complex numbers is float32 with an additional last axis for the real and the
imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.models.tflite.checks import to_ints
from firmwright.models.tflite.data_movement import shape_of
from firmwright.models.tflite.integer_products import reshape

COMPLEX = (tflite.TensorType.COMPLEX64, tflite.TensorType.COMPLEX128)


def has_complex(converter: Any, op: Any) -> bool:
    tensors = (*to_ints(op.InputsAsNumpy()), *to_ints(op.OutputsAsNumpy()))
    return not converter.complex_tensors.isdisjoint(tensors)


def convert_rfft(converter: Any, op: Any) -> relax.Expr:
    """Convert RFFT2D of a row, because TVM's FFT needs TVM's runtime.

    LiteRT cuts or pads a row to the length, which is a power of two, and adds in float64. Raises
    UserError for transforms of two axes.
    """
    source, sizes = converter.get_input_tensors(op)
    height, length = (int(n) for n in converter.get_tensor_value(sizes))
    *outer, rows, width = shape_of(converter, source)
    if height != 1 or rows != 1:
        raise UserError(
            f"transforms {rows} rows of {width} values with the lengths {height} and {length}; "
            "firmwright supports transforms of one row: transform one axis of the signal"
        )
    data = reshape(converter, converter.get_tensor_expr(source), [int(np.prod(outer)), width])
    angles = 2 * np.pi * np.arange(length) / length
    circle = np.stack([np.cos(angles), -np.sin(angles)], 1).astype("float32")
    result = converter.bb.emit_te(
        transform_rows, data, relax.const(circle), primfunc_name_hint="rfft"
    )
    return reshape(converter, result, [*outer, 1, length // 2 + 1, 2])


def transform_rows(data: te.Tensor, circle: te.Tensor) -> te.Tensor:
    """Return the spectrum (rows, length / 2 + 1, 2) of rows of real numbers.

    ``circle`` (length, 2) contains the powers of e^(-2πi / length). A position is turn · columns +
    column. Therefore length / turns frequencies use each sum over all turns.
    """
    (count, width), length = (int(d) for d in data.shape), int(circle.shape[0])
    turns = 2 ** ((length.bit_length() - 1) // 2)
    columns = length // turns
    turn_of = te.reduce_axis((0, turns), "place")
    column = te.reduce_axis((0, columns), "column")
    zero = tirx.const(0, "float32")

    def sum_rows(row: Any, frequency: Any, at: Any, part: Any) -> Any:
        position = turn_of * columns + at
        value = te.if_then_else(position < width, data[row, te.min(position, width - 1)], zero)
        return te.sum(value * circle[(turn_of * frequency * columns) % length, part], axis=turn_of)

    partial = te.compute((count, turns, columns, 2), sum_rows, "partial")

    def sum_columns(row: Any, frequency: Any, part: Any) -> Any:
        turn = (column * frequency) % length
        real, imaginary = (partial[row, frequency % turns, column, p] for p in (0, 1))
        other = tirx.Select(part == 0, zero - circle[turn, 1], circle[turn, 0])
        return te.sum(real * circle[turn, part] + imaginary * other, axis=column)

    return te.compute((count, length // 2 + 1, 2), sum_columns, "spectrum")


def convert_complex_reshape(converter: Any, op: Any) -> relax.Expr:
    source, *_ = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    shape = [*shape_of(converter, target), 2]
    return reshape(converter, converter.get_tensor_expr(source), shape)


def take_part(converter: Any, op: Any, part: int) -> relax.Expr:
    """Return the real (0) or the imaginary (1) part of complex numbers."""
    (source,) = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    axis = len(shape_of(converter, target))
    parts = converter.get_tensor_expr(source)
    taken = relax.op.strided_slice(parts, axes=[axis], begin=[part], end=[part + 1])
    return reshape(converter, taken, shape_of(converter, target))


def convert_complex_abs(converter: Any, op: Any) -> relax.Expr:
    squares = [relax.op.square(take_part(converter, op, part)) for part in (0, 1)]
    return relax.op.sqrt(relax.op.add(*squares))


CONVERSIONS: Mapping[str, Callable[[Any, Any], relax.Expr]] = {
    "COMPLEX_ABS": convert_complex_abs,
    "EXPAND_DIMS": convert_complex_reshape,
    "IMAG": lambda converter, op: take_part(converter, op, 1),
    "REAL": lambda converter, op: take_part(converter, op, 0),
    "RESHAPE": convert_complex_reshape,
    "RFFT2D": convert_rfft,
    "SQUEEZE": convert_complex_reshape,
}
