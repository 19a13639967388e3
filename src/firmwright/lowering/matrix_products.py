"""Reads a region as products of two stacks of matrices that are both activations.

Operators that permute or rename axes before a product change only the positions of the elements.
Therefore an attention layer multiplies its heads in the order that they have in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile, pairwise
from math import prod

import numpy as np

from firmwright.ir.chains import INT32_LIMIT, PRODUCT, Definitions
from firmwright.ir.layer import Layer, Matrices, MatrixProduct
from firmwright.ir.nodes import Call, Expr, Function
from firmwright.ir.relax import dtype_of, operator_name, static_shape
from firmwright.lowering.integer_layers import (
    find_quantized_call,
    make_dense,
    make_scaling,
    read_bytes,
)
from firmwright.lowering.kernels.quantized_tensor import (
    BATCH_MATMUL,
    OutputQuantParams,
    QuantizedTensor,
)

ROLES = ("left", "right")

TURNED = "relax.permute_dims"
VIEWS = (TURNED, "relax.reshape", "relax.expand_dims")

Axes = tuple[tuple[int, int], ...]
"""The size and step of each axis of a view, in elements of the viewed tensor."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A region's parameter with its quantization parameters and the axes that a product reads."""

    parameter: Expr
    params: QuantizedTensor
    axes: Axes


def read_matrix_product(function: Function, rounding: str) -> MatrixProduct | None:
    """Return the products that a region's function computes, or None for other functions.

    ``rounding`` is the recipe's rounding, "tflite" or "onnx".
    """
    quantized_call = find_quantized_call(function, rounding, 2, (PRODUCT,))
    if quantized_call is None:
        return None
    definitions, call, params = quantized_call
    operands = [o for a in call.args if (o := read_operand(a, definitions)) is not None]
    parameters = [operand.parameter for operand in operands]
    if len(operands) < 2 or {*parameters} != {*function.params}:
        return None
    roles = tuple(ROLES[parameters.index(p)] for p in function.params)
    operator = PRODUCT if len(static_shape(call.args[1])) == 2 else BATCH_MATMUL
    return make_product(operands[0], operands[1], roles, operator, params, rounding)


def read_operand(argument: Expr, definitions: Definitions) -> Operand | None:
    """Return the operand that an argument reads, or None if the operand is not quantized bytes."""
    seen, source = find_views(argument, definitions)
    params = read_bytes(source, definitions)
    if params is None:
        return None
    stored, parameter = find_views(params.data, definitions)
    axes: Axes | None = lay_axes(static_shape(parameter))
    for view in (*stored, *seen):
        axes = None if axes is None else change_axes(axes, view)
    return None if axes is None or len(axes) < 2 else Operand(parameter, params, axes)


def find_views(argument: Expr, definitions: Definitions) -> tuple[list[Call], Expr]:
    """Return the views from a source to an argument, in order of execution, and the source."""
    views: list[Call] = []
    while (call := definitions.get(argument)) is not None and operator_name(call) in VIEWS:
        views.insert(0, call)
        argument = call.args[0]
    return views, argument


def lay_axes(shape: tuple[int, ...]) -> Axes:
    return tuple((size, prod(shape[axis + 1 :])) for axis, size in enumerate(shape))


def change_axes(axes: Axes, view: Call) -> Axes | None:
    """Return the axes of a view, or None if the step of an axis is not constant."""
    if operator_name(view) == TURNED:
        order = view.attrs.axes
        turned = range(len(axes))[::-1] if order is None else (int(axis) for axis in order)
        return tuple(axes[axis] for axis in turned)
    shape = static_shape(view)
    if axes == lay_axes(tuple(size for size, _ in axes)):
        return lay_axes(shape)
    long = [axis for axis in axes if axis[0] > 1]
    if [size for size, _ in long] != [size for size in shape if size > 1]:
        return None
    steps = iter(long)
    return tuple(next(steps) if size > 1 else (1, 0) for size in shape)


def join_axes(axes: Axes) -> tuple[int, int] | None:
    """Return several axes as one axis, or None if the distances between elements differ."""
    long = [axis for axis in axes if axis[0] > 1] or [(1, 0)]
    even = all(far == size * near for (_, far), (size, near) in pairwise(long))
    return (prod(size for size, _ in long), long[-1][1]) if even else None


def lay_stacks(left: Axes, right: Axes) -> tuple[Axes, Axes] | None:
    """Return both operands with three axes.

    A stack of one matrix has a step of 0. The result is None if the matrices do not correspond one
    by one, or if the distances between the matrices differ.
    """
    # Batch axes are aligned at the last batch axis, so only leading axes may be missing.
    sizes = [[*dropwhile(lambda n: n == 1, (n for n, _ in axes[:-2]))] for axes in (left, right)]
    if not sizes[1]:  # all rows of all matrices use one matrix
        rows = join_axes(left[:-1])
        return None if rows is None else (((1, 0), rows, left[-1]), ((1, 0), *right[-2:]))
    stacks = [join_axes(axes[:-2]) for axes in (left, right)]
    if stacks[0] is None or stacks[1] is None or (sizes[0] and sizes[0] != sizes[1]):
        return None
    return (stacks[0], *left[-2:]), (stacks[1], *right[-2:])


def make_product(
    left: Operand,
    right: Operand,
    roles: tuple[str, ...],
    operator: str,
    params: OutputQuantParams,
    rounding: str,
) -> MatrixProduct | None:
    """Return the products of two operands.

    The result is None if the sums might not fit 32 bits, or if the elements of a row are not
    adjacent.
    """
    stacks = lay_stacks(left.axes, right.axes)
    if stacks is None or stacks[0][2][1] > 1:
        return None
    inner = stacks[0][2][0]
    largest = inner * left.params.largest * right.params.largest
    dtype, scale = dtype_of(left.params.data), left.params.scale * right.params.scale
    sums = QuantizedTensor(
        left.params.data, scale, np.zeros(1, "int64"), 0, largest, operator, dtype
    )
    scaling = make_scaling(sums, params, rounding, channels=1) if largest < INT32_LIMIT else None
    if scaling is None:
        return None
    layer = Layer(
        **make_dense(1, np.full((1, inner), right.params.largest)).list_sums(),
        input_dtype=dtype,
        input_zero_point=int(left.params.zero_point[0]),
        scaling=scaling,
        output_dtype=params.dtype,
        zero_point=params.zero_point,
        low=params.low,
        high=params.high,
    )
    return MatrixProduct(
        stacks=max(stacks[0][0][0], stacks[1][0][0]),
        rows=stacks[0][1][0],
        columns=stacks[1][2][0],
        roles=roles,
        left=lay_matrices(left, stacks[0]),
        right=lay_matrices(right, stacks[1]),
        sums=layer,
    )


def lay_matrices(operand: Operand, axes: Axes) -> Matrices:
    stacks, rows, columns = (step for _, step in axes)
    return Matrices(
        dtype_of(operand.params.data),
        int(operand.params.zero_point[0]),
        prod(size for size, _ in operand.axes),
        (stacks, rows, columns),
    )
