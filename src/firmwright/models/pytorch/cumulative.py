"""Imports products along an axis, and cumulative products and extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax, te, tirx, topi

from firmwright.ir.relax import static_shape
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
    positions = emit(lambda data, found: find_positions(data, found, axis), x, values)
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


def find_positions(data: te.Tensor, found: te.Tensor, axis: int) -> te.Tensor:
    """Return the last index up to each element at which the value equals ``found``."""
    step = te.reduce_axis((0, data.shape[axis]), "step")

    def element(*index: Any) -> Any:
        equal = data[at(index, axis, step.var)] == found[index]
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
