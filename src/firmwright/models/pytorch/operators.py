"""Imports products and extremes along an axis, normalizations, and ``view(dtype)``.

TVM has no converters of these operators, or its converters require parameters or equal types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax, te, tirx, topi

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.onnx.written_kernels import cast_bits
from firmwright.models.pytorch.nodes import Convert, Importer, kind_of


def multiply_up(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``cumprod(x, axis)`` as loops, because TVM calls a runtime library."""
    x, axis = importer.env[node.args[0]], node.args[1]
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    return importer.block_builder.emit_te(topi.cumprod, x, axis, dtype)


def find_extremes(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``cummax(x, axis)`` and ``cummin``: values, and the last index of each value."""
    x, axis = importer.env[node.args[0]], node.args[1]
    largest = kind_of(node) == "cummax"
    axis %= len(static_shape(x))
    emit = importer.block_builder.emit_te
    values = emit(lambda data: find_values(data, axis, largest), x)
    positions = emit(lambda data, extremes: find_positions(data, extremes, axis), x, values)
    return importer.block_builder.emit(relax.Tuple([values, positions]))


def add_exponentials(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``logcumsumexp(x, axis)``. Each sum is relative to its largest term."""
    x, axis = importer.env[node.args[0]], node.args[1]
    axis %= len(static_shape(x))
    emit = importer.block_builder.emit_te
    largest = emit(lambda data: find_values(data, axis, True), x)
    sums = emit(lambda data, top: add_relative(data, top, axis), x, largest)
    return importer.block_builder.emit(relax.op.add(relax.op.log(sums), largest))


def add_relative(data: te.Tensor, largest: te.Tensor, axis: int) -> te.Tensor:
    """Return the sum of exp(x - largest) over the elements up to each element."""
    step = te.reduce_axis((0, data.shape[axis]), "step")

    def element(*index: Any) -> Any:
        power = te.exp(data[at(index, axis, step.var)] - largest[index])
        zero = tirx.const(0, str(data.dtype))
        return te.sum(tirx.Select(step.var <= index[axis], power, zero), axis=step)

    return te.compute(data.shape, element, "sum")


def at(index: Any, axis: int, position: Any) -> tuple[Any, ...]:
    return (*index[:axis], position, *index[axis + 1 :])


def find_values(data: te.Tensor, axis: int, largest: bool) -> te.Tensor:
    """Return the extreme of the elements up to each element."""
    step = te.reduce_axis((0, data.shape[axis]), "step")
    dtype = str(data.dtype)
    start = tvm.tirx.min_value(dtype) if largest else tvm.tirx.max_value(dtype)
    if "float" in dtype:
        start = tirx.const(-np.inf if largest else np.inf, dtype)
    combine = te.max if largest else te.min

    def element(*index: Any) -> Any:
        inside = tirx.Select(step.var <= index[axis], data[at(index, axis, step.var)], start)
        return combine(inside, axis=step)

    return te.compute(data.shape, element, "extreme")


def find_positions(data: te.Tensor, extremes: te.Tensor, axis: int) -> te.Tensor:
    """Return the last index up to each element at which the value equals ``extremes``."""
    step = te.reduce_axis((0, data.shape[axis]), "step")

    def element(*index: Any) -> Any:
        equal = data[at(index, axis, step.var)] == extremes[index]
        inside = tirx.And(step.var <= index[axis], equal)
        position = tirx.Cast("int64", step.var)
        return te.max(tirx.Select(inside, position, tirx.const(0, "int64")), axis=step)

    return te.compute(data.shape, element, "place")


def multiply(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    x, axis, *options = node.args
    keep = bool(options[0]) if options else False
    return importer.block_builder.emit(relax.op.prod(importer.env[x], axis, keep))


CUMULATIVE: dict[str, Convert] = {
    "cumprod.default": multiply_up,
    "cummax.default": find_extremes,
    "cummin.default": find_extremes,
    "logcumsumexp.default": add_exponentials,
    "prod.dim_int": multiply,
}


def view_bits(importer: Any, node: torch.fx.Node) -> relax.Expr:
    """Import ``view(dtype)``. The bytes are in little-endian order.

    If the sizes of the types differ, the last axis becomes longer or shorter. Raises ValueError for
    Booleans.
    """
    builder, data = importer.block_builder, importer.env[node.args[0]]
    before, after = dtype_of(data), importer._convert_data_type(node.meta["val"].dtype)
    if "bool" in (before, after):
        raise ValueError("the bytes of Booleans are not defined; convert them to uint8")
    sizes = [tvm.DataType(kind).bits for kind in (before, after)]
    if sizes[0] == sizes[1]:
        return cast_bits(builder, data, after)
    small, large = sorted(sizes)
    words = cast_bits(builder, data, f"uint{sizes[0]}")
    *leading, length = static_shape(words)
    count = large // small
    shifts = relax.const(np.arange(count) * small, f"uint{large}")
    if sizes[0] == large:
        column = builder.emit(relax.op.expand_dims(words, -1))
        parts = builder.emit(relax.op.right_shift(column, shifts))
        parts = builder.emit(relax.op.astype(parts, f"uint{small}"))
        words = builder.emit(relax.op.reshape(parts, (*leading, length * count)))
    else:
        wide = builder.emit(relax.op.astype(words, f"uint{large}"))
        groups = builder.emit(relax.op.reshape(wide, (*leading, length // count, count)))
        moved = builder.emit(relax.op.left_shift(groups, shifts))
        words = builder.emit(relax.op.sum(moved, -1))
    return cast_bits(builder, words, after)


Converter = Callable[[torch.fx.Node], relax.Expr]


def normalize_groups(importer: Any, node: torch.fx.Node) -> relax.Var:
    """Normalize groups. TVM's importer requires weights and biases, but they are optional."""
    x, weights, biases, _, channels, _, groups, epsilon = node.args
    data = importer.env[x]
    kind = dtype_of(data)
    scale = importer.env.get(weights, relax.const(np.ones(channels), kind))
    shift = importer.env.get(biases, relax.const(np.zeros(channels), kind))
    axes = list(range(2, len(static_shape(data))))
    return importer.block_builder.emit(
        relax.op.nn.group_norm(data, scale, shift, groups, 1, axes, epsilon)
    )


def compute_in_parameter_type(importer: Any, convert: Converter) -> Converter:
    """Return a converter that computes in the parameters' type, and rounds the result once.

    Under autocast, inputs have 16 bits and parameters are float32. TVM requires one type.
    """

    def converted(node: torch.fx.Node) -> relax.Expr:
        source = node.args[0]
        x = importer.env[source]
        kinds = [dtype_of(importer.env[a]) for a in node.args[1:] if isinstance(a, torch.fx.Node)]
        if not kinds or kinds[0] == dtype_of(x):
            return convert(node)
        importer.env[source] = importer.block_builder.emit(relax.op.astype(x, kinds[0]))
        result = convert(node)
        importer.env[source] = x
        return importer.block_builder.emit(relax.op.astype(result, dtype_of(x)))

    return converted


NORMALIZATIONS = (
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_no_training.default",
    "native_group_norm.default",
    "native_layer_norm.default",
)
