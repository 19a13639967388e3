"""Converts operators on the diagonals of matrices, and RIGHT_SHIFT.

Each docstring describes the error of TVM's converter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from firmwright.ir.relax import static_shape


def read_inputs(converter: Any, op: Any) -> list[relax.Expr]:
    inputs = [converter.get_tensor_expr(tensor) for tensor in converter.get_input_tensors(op)]
    return [converter.bb.normalize(value) for value in inputs]


def convert_matrix_diag(converter: Any, op: Any) -> relax.Expr:
    """Convert MATRIX_DIAG, because TVM calls a function of its runtime."""
    (diagonal,) = read_inputs(converter, op)
    shape, dtype = static_shape(diagonal), str(diagonal.ty.dtype)
    matrix = relax.op.zeros([*shape, shape[-1]], dtype)
    return replace_diagonals(matrix, diagonal, shape[-1], shape[-1])


def convert_matrix_set_diag(converter: Any, op: Any) -> relax.Expr:
    """Convert MATRIX_SET_DIAG, because TVM calls a function of its runtime."""
    matrix, diagonal = read_inputs(converter, op)
    rows, columns = static_shape(matrix)[-2:]
    return replace_diagonals(matrix, diagonal, rows, columns)


def replace_diagonals(
    matrix: relax.Expr, diagonal: relax.Expr, rows: int, columns: int
) -> relax.Expr:
    """Replace the diagonals (..., smaller length) of matrices (..., rows, columns)."""
    places = np.minimum(np.arange(rows), min(rows, columns) - 1).astype("int64")
    per_row = relax.op.take(diagonal, relax.const(places), axis=-1)
    is_diagonal = relax.const(np.eye(rows, columns, dtype=bool))
    return relax.op.where(is_diagonal, relax.op.expand_dims(per_row, -1), matrix)


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
