"""Imports complex numbers as pairs of floats in a last axis of length 2.

TVM does not support complex numbers. A Fourier transform is a product with a constant matrix, which
contains torch's transforms of the unit vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from tvm import relax
from tvm.relax import Expr, op

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.pytorch.indexing import invert, permute
from firmwright.models.pytorch.nodes import Convert, Importer

ATEN = torch.ops.aten

LONGEST = 2**11
"""The maximum number of real values that one Fourier transform reads.

The matrix of the transform is square.
"""


def is_complex(value: Any) -> bool:
    tensor = value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(tensor, torch.Tensor) and tensor.is_complex()


def uses_complex(node: torch.fx.Node) -> bool:
    return is_complex(node) or any(is_complex(source) for source in node.all_input_nodes)


def store_pairs(program: torch.export.ExportedProgram) -> None:
    """Replace the complex weights and buffers of a program with pairs of floats."""
    for table in (program.state_dict, program.constants):
        for name, value in table.items():
            if isinstance(value, torch.Tensor) and value.is_complex():
                table[name] = torch.view_as_real(value.detach().resolve_conj()).contiguous()


def transform(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``_fft_r2c``, ``_fft_c2r`` and ``_fft_c2c`` as one product per axis.

    Only the last axis converts between real and complex numbers.
    """
    x, axes, norm, last = node.args
    rank = len(node.meta["val"].shape)
    *others, main = [axis % rank for axis in axes]
    value, kind = importer.env[x], node.target
    if kind is ATEN._fft_c2c.default:
        for axis in (*others, main):
            value = apply_transform(importer, value, axis, kind, (norm, last))
        return value
    forward = kind is ATEN._fft_r2c.default
    if forward:
        value = apply_transform(importer, value, main, kind, (norm, last))
    for axis in others:
        value = apply_transform(importer, value, axis, ATEN._fft_c2c.default, (norm, forward))
    return value if forward else apply_transform(importer, value, main, kind, (norm, last))


def apply_transform(
    importer: Importer, x: Expr, axis: int, kind: Any, options: Sequence[Any]
) -> Expr:
    """Transform one axis. The rows of the matrix are the operator's results for unit vectors."""
    builder, shape = importer.block_builder, static_shape(x)
    real = kind is ATEN._fft_r2c.default
    count = shape[axis] * (1 if real else 2)
    if count > LONGEST + 2:
        raise ValueError(
            f"a Fourier transform of {shape[axis]} numbers; expected at most {LONGEST} real or "
            f"{LONGEST // 2} complex numbers: use torch.stft, or transform in C before the network"
        )
    units = torch.eye(count, dtype=torch.float64)
    if not real:
        units = torch.view_as_complex(units.reshape(count, -1, 2))
    result = kind(units, [1], *options)
    matrix = torch.view_as_real(result) if result.is_complex() else result
    rank = len(shape) if real else len(shape) - 1
    rest = [a for a in range(rank) if a != axis]
    moved = permute(builder, x, [*rest, axis, *range(rank, len(shape))])
    sizes = [shape[a] for a in rest]
    flat = builder.emit(op.reshape(moved, (prod(sizes), count)))
    rows = relax.const(matrix.reshape(count, -1).numpy().astype(dtype_of(x)))
    transformed = builder.emit(op.matmul(flat, rows))
    transformed = builder.emit(op.reshape(transformed, (*sizes, *matrix.shape[1:])))
    pair = range(rank, rank + matrix.dim() - 2)
    return permute(builder, transformed, [*invert([*rest, axis]), *pair])


def split(importer: Importer, x: Expr) -> tuple[Expr, Expr]:
    emit, axis = importer.block_builder.emit, len(static_shape(x)) - 1
    real, imaginary = (emit(op.take(x, relax.const(i, "int64"), axis)) for i in (0, 1))
    return real, imaginary


def join(importer: Importer, node: torch.fx.Node, real: Expr, imaginary: Expr) -> Expr:
    """Combine the parts of a node's result, which may need broadcasting."""
    emit, shape = importer.block_builder.emit, tuple(node.meta["val"].shape)
    parts = [
        part if static_shape(part) == shape else emit(op.broadcast_to(part, shape))
        for part in (real, imaginary)
    ]
    return emit(op.stack(parts, -1))


def convert_parts(importer: Importer, node: torch.fx.Node, value: Expr) -> Expr:
    kind = str(node.meta["val"].dtype.to_real()).removeprefix("torch.")
    if dtype_of(value) == kind:
        return value
    return importer.block_builder.emit(op.astype(value, kind))


def read_parts(importer: Importer, value: Any, user: torch.fx.Node) -> tuple[Expr, Expr | None]:
    """Return the parts of an operand. The imaginary part of a real operand is None."""
    if isinstance(value, torch.fx.Node):
        operand = convert_parts(importer, user, importer.env[value])
        return split(importer, operand) if is_complex(value) else (operand, None)
    number = complex(value)
    kind = str(user.meta["val"].dtype.to_real()).removeprefix("torch.")
    imaginary = relax.const(number.imag, kind) if number.imag else None
    return relax.const(number.real, kind), imaginary


def operands_of(importer: Importer, node: torch.fx.Node) -> list[tuple[Expr, Expr | None]]:
    return [read_parts(importer, value, node) for value in node.args[:2]]


def add(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``add(x, y)`` and ``sub(x, y)`` without a factor."""
    if node.kwargs.get("alpha", 1) != 1:
        raise ValueError(
            "a sum of complex numbers with alpha is not supported; multiply the second summand by "
            "alpha before the sum"
        )
    (a, b), (c, d) = operands_of(importer, node)
    combine = op.add if node.target is ATEN.add.Tensor else op.subtract
    zero = relax.const(0.0, dtype_of(a))
    pairs = (a, c), (zero if b is None else b, zero if d is None else d)
    emit = importer.block_builder.emit
    return join(importer, node, *(emit(combine(x, y)) for x, y in pairs))


def multiply(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``mul(x, y)`` of two complex numbers, or of a complex and a real number."""
    (a, b), (c, d) = operands_of(importer, node)
    emit = importer.block_builder.emit
    if b is None:
        (a, b), (c, d) = (c, d), (a, b)
    b = relax.const(0.0, dtype_of(a)) if b is None else b
    if d is None:
        return join(importer, node, emit(op.multiply(a, c)), emit(op.multiply(b, c)))
    real = emit(op.subtract(op.multiply(a, c), op.multiply(b, d)))
    return join(importer, node, real, emit(op.add(op.multiply(a, d), op.multiply(b, c))))


def divide(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``div(x, y)`` if y is real."""
    (a, b), (c, d) = operands_of(importer, node)
    if d is not None:
        raise ValueError(
            "a division by complex numbers is not supported; multiply by the real and imaginary "
            "parts of the reciprocal"
        )
    b = relax.const(0.0, dtype_of(a)) if b is None else b
    emit = importer.block_builder.emit
    return join(importer, node, emit(op.divide(a, c)), emit(op.divide(b, c)))


def conjugate(importer: Importer, node: torch.fx.Node) -> Expr:
    real, imaginary = split(importer, importer.env[node.args[0]])
    return join(importer, node, real, importer.block_builder.emit(op.negative(imaginary)))


def negate(importer: Importer, node: torch.fx.Node) -> Expr:
    return importer.block_builder.emit(op.negative(importer.env[node.args[0]]))


def measure(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``abs(x)``, the root of the sum of both squares."""
    x = importer.env[node.args[0]]
    squares = importer.block_builder.emit(op.sum(op.multiply(x, x), -1))
    return importer.block_builder.emit(op.sqrt(squares))


def find_angle(importer: Importer, node: torch.fx.Node) -> Expr:
    real, imaginary = split(importer, importer.env[node.args[0]])
    return importer.block_builder.emit(op.atan2(imaginary, real))


def turn(importer: Importer, node: torch.fx.Node) -> Expr:
    length, angle = (importer.env[part] for part in node.args)
    parts = (op.multiply(length, function(angle)) for function in (op.cos, op.sin))
    return join(importer, node, *(importer.block_builder.emit(part) for part in parts))


def concatenate(importer: Importer, node: torch.fx.Node) -> Expr:
    values = [importer.env[part] for part in node.args[0]]
    axis = node.args[1] if len(node.args) > 1 else 0
    axis %= len(node.meta["val"].shape)
    return importer.block_builder.emit(op.concat(values, axis))


def make_complex(importer: Importer, node: torch.fx.Node) -> Expr:
    return join(importer, node, *(importer.env[part] for part in node.args))


def pass_pairs(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import ``view_as_real``, ``view_as_complex`` and copies."""
    value = convert_parts(importer, node, importer.env[node.args[0]])
    if is_complex(node.args[0]) or node.target is ATEN.view_as_complex.default:
        return value
    return join(importer, node, value, relax.const(0.0, dtype_of(value)))


def reshape(importer: Importer, node: torch.fx.Node) -> Expr:
    """Import operators that keep the order of the elements."""
    shape = [*node.meta["val"].shape, 2]
    return importer.block_builder.emit(op.reshape(importer.env[node.args[0]], shape))


def permute_axes(importer: Importer, node: torch.fx.Node) -> Expr:
    rank = len(node.args[1])
    order = [*(axis % rank for axis in node.args[1]), rank]
    return permute(importer.block_builder, importer.env[node.args[0]], order)


def cut(importer: Importer, node: torch.fx.Node) -> Expr:
    stated: list[Any] = [*node.args[1:]]
    defaults: list[Any] = [0, None, None, 1]
    axis, start, end, step = stated + defaults[len(stated) :]
    value = importer.env[node.args[0]]
    axis %= len(static_shape(value)) - 1
    positions = np.arange(static_shape(value)[axis])[slice(start, end, step)]
    return importer.block_builder.emit(op.take(value, relax.const(positions, "int64"), axis))


def select(importer: Importer, node: torch.fx.Node) -> Expr:
    x, axis, index = node.args
    value = importer.env[x]
    axis %= len(static_shape(value)) - 1
    position = relax.const(index % static_shape(value)[axis], "int64")
    return importer.block_builder.emit(op.take(value, position, axis))


COMPLEX: dict[str, Convert] = {
    **dict.fromkeys(("_fft_r2c.default", "_fft_c2r.default", "_fft_c2c.default"), transform),
    **dict.fromkeys(("_conj.default", "_conj_physical.default"), conjugate),
    **dict.fromkeys(
        ("view_as_real.default", "view_as_complex.default", "clone.default", "alias.default",
         "_to_copy.default"),
        pass_pairs,
    ),
    **dict.fromkeys(
        ("view.default", "reshape.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
         "squeeze.dims"),
        reshape,
    ),
    "abs.default": measure,
    "add.Tensor": add,
    "angle.default": find_angle,
    "cat.default": concatenate,
    "complex.default": make_complex,
    "div.Tensor": divide,
    "mul.Tensor": multiply,
    "neg.default": negate,
    "permute.default": permute_axes,
    "polar.default": turn,
    "select.int": select,
    "slice.Tensor": cut,
    "sub.Tensor": add,
}  # fmt: skip
