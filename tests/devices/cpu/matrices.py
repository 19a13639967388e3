"""Random products of two activations, and their results in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax

from firmwright.ir.chains import PRODUCT
from firmwright.ir.layer import Matrices, MatrixProduct
from firmwright.ir.tensors import Tensor
from firmwright.lowering.kernels.quantized_tensor import (
    BATCH_MATMUL,
    OutputQuantParams,
    QuantizedTensor,
    bound_magnitude,
)
from firmwright.lowering.matrix_products import ROLES, Axes, Operand, lay_axes, make_product
from tests.devices.cpu.float_layers import make_output

Array = npt.NDArray[Any]

SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 16)

INNER = (1, 2, 3, 4, 6, 7, 8, 13, 16, 31, 64, 1500)


def draw_operand(axes: Axes, generator: np.random.Generator) -> Operand:
    """Return an operand with random quantization parameters; one of five has no zero point."""
    dtype = str(generator.choice(["int8", "int8", "uint8"]))
    limits = np.iinfo(dtype)
    point = int(generator.integers(limits.min, limits.max + 1))
    points = np.array([point if generator.random() < 0.8 else 0])
    variable = relax.Var("operand", relax.TensorType((1,), dtype))
    largest = bound_magnitude(variable, points)
    scale = generator.uniform(0.02, 0.2, 1)
    return Operand(variable, QuantizedTensor(variable, scale, points, 0, largest), axes)


def turn(axes: Axes, *order: int) -> Axes:
    return tuple(axes[axis] for axis in order)


def draw_axes(generator: np.random.Generator) -> tuple[Axes, Axes]:
    """Return the layouts of both operands: some have interleaved heads, some are transposed."""
    stacks, rows, columns = (int(generator.choice(c)) for c in ((1, 1, 2, 3), SIZES, SIZES))
    inner = int(generator.choice(INNER))
    match int(generator.integers(4)):
        case 0:
            left, right = lay_axes((stacks, rows, inner)), lay_axes((stacks, columns, inner))
            return left, turn(right, 0, 2, 1)
        case 1:
            left, right = lay_axes((rows, stacks, inner)), lay_axes((columns, stacks, inner))
            return turn(left, 1, 0, 2), turn(right, 1, 2, 0)
        case 2:
            return lay_axes((rows, inner)), lay_axes((stacks, inner, columns))
        case _:
            return lay_axes((stacks, rows, inner)), lay_axes((stacks, inner, columns))


def draw_matrix_product(generator: np.random.Generator) -> MatrixProduct:
    """Return random products in any rounding; some are longer than the sums of forms allow."""
    left, right = (draw_operand(axes, generator) for axes in draw_axes(generator))
    inner = left.axes[-1][0]
    reach = float(left.params.scale[0] * right.params.scale[0]) * 120 * 120 * inner**0.5
    scale = np.float32(reach / 128 * generator.choice([0.5, 2, 2, 2e-5]))
    dtype = str(generator.choice(["int8", "uint8"]))
    limits = np.iinfo(dtype)
    point = int(generator.integers(limits.min, limits.max + 1))
    low = point if generator.random() < 0.4 else int(limits.min)
    grid = OutputQuantParams(dtype, scale, point, low, int(limits.max))
    operator = PRODUCT if generator.random() < 0.3 else BATCH_MATMUL
    roles = ROLES if generator.random() < 0.5 else ROLES[::-1]
    rounding = "onnx" if generator.random() < 0.4 else "tflite"
    found = make_product(left, right, roles, operator, grid, rounding)
    return draw_matrix_product(generator) if found is None else found


def sum_matrices(product: MatrixProduct, inputs: Mapping[str, Array]) -> Array:
    """Return the int64 sums (stacks, rows, columns)."""
    left = look_up(product.left, inputs["left"], (product.stacks, product.rows, product.inner))
    right = look_up(
        product.right, inputs["right"], (product.stacks, product.inner, product.columns)
    )
    sums: Array = left @ right
    return sums


def look_up(matrices: Matrices, data: Array, shape: tuple[int, int, int]) -> Array:
    """Return the integers of a stack of matrices as int64, minus their zero point."""
    steps = np.array(matrices.steps)[:, None, None, None]
    found: Array = data.reshape(-1)[(np.indices(shape) * steps).sum(0)].astype("int64")
    return found - matrices.zero_point


def make_matrix_tensors(product: MatrixProduct, number: int) -> tuple[list[Tensor], Tensor]:
    """Return the inputs and the output of a product."""
    read = [
        Tensor(f"input_{number}_{role}", (operand.elements,), operand.dtype)
        for role, operand in product.inputs
    ]
    return read, make_output(number, (product.output_elements,), product.output_dtype)
