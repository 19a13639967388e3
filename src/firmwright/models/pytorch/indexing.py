"""Imports reads and writes at computed indices, in all forms of torch.

TVM reads several indices as their product, has only one form of scatter, and has no unfold. This
module first moves the indexed axes and merges them to one axis. A single index counts along the
merged axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from tvm import relax

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.pytorch.nodes import Convert, Importer, kind_of

Shape = tuple[int, ...]


@dataclass(frozen=True)
class IndexedAxes:
    """The axes of a tensor that are indexed together, and the position of their result.

    ``order`` lists the indexed axes first. ``position`` is an int64 tensor that counts along all
    indexed axes in row order. ``first`` is the axis of the result at which the axes of the index
    begin.
    """

    order: tuple[int, ...]
    count: int
    others: Shape
    position: relax.Expr
    first: int

    @property
    def index_shape(self) -> Shape:
        return static_shape(self.position)

    @property
    def result_order(self) -> list[int]:
        """Return the order that moves the leading axes of the index to axis ``first``."""
        rank = len(self.index_shape)
        before = range(rank, rank + self.first)
        return [*before, *range(rank), *range(rank + self.first, rank + len(self.others))]


def select(importer: Importer, x: relax.Expr, given: Sequence[torch.fx.Node | None]) -> IndexedAxes:
    """Return the selection for one index per axis. None marks an axis without an index.

    Raises ValueError if an index is Boolean, because a Boolean index selects an unknown number of
    elements.
    """
    builder, shape = importer.block_builder, static_shape(x)
    indices = {axis: importer.env[n] for axis, n in enumerate(given) if n is not None}
    if any(dtype_of(index) == "bool" for index in indices.values()):
        raise ValueError(
            "a mask selects a number of elements that is known only at run time; use torch.where, "
            "which keeps all elements"
        )
    position, count = None, 1
    for axis, index in reversed(indices.items()):
        index = count_from_start(builder, index, shape[axis])
        term = relax.op.multiply(index, relax.const(count, "int64")) if count > 1 else index
        position = builder.emit(term if position is None else relax.op.add(position, term))
        count *= shape[axis]
    axes = [*indices]
    rest = [axis for axis in range(len(shape)) if axis not in indices]
    adjacent = axes == [*range(axes[0], axes[-1] + 1)]
    others = tuple(shape[axis] for axis in rest)
    return IndexedAxes((*axes, *rest), count, others, position, axes[0] if adjacent else 0)


def count_from_start(builder: relax.BlockBuilder, index: relax.Expr, length: int) -> relax.Expr:
    """Return an index as int64. Negative indices become positions from the start."""
    wide = builder.emit(relax.op.astype(index, "int64"))
    moved = builder.emit(relax.op.add(wide, relax.const(length, "int64")))
    return builder.emit(relax.op.where(relax.op.less(wide, relax.const(0, "int64")), moved, wide))


def permute(builder: relax.BlockBuilder, x: relax.Expr, order: Sequence[int]) -> relax.Expr:
    ordered = [*order] == [*range(len(order))]
    return x if ordered else builder.emit(relax.op.permute_dims(x, [*order]))


def invert(order: Sequence[int]) -> list[int]:
    return [int(axis) for axis in np.argsort(order)]


def index(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``x[i, :, j]``, which has the form ``index(x, [i, None, j])``."""
    builder, x = importer.block_builder, importer.env[node.args[0]]
    chosen = select(importer, x, node.args[1])
    rows = permute(builder, x, chosen.order)
    rows = builder.emit(relax.op.reshape(rows, (chosen.count, *chosen.others)))
    elements = builder.emit(relax.op.take(rows, chosen.position, axis=0))
    return permute(builder, elements, chosen.result_order)


def index_put(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``index_put(x, indices, values, accumulate)``.

    The last of equal indices has precedence.
    """
    x, indices, values, *options = node.args
    builder, data = importer.block_builder, importer.env[x]
    update = importer.env[values]
    first = importer.env.get(indices[0])
    if len(indices) == 1 and dtype_of(first) == "bool" and prod(static_shape(update)) == 1:
        return fill_mask(builder, data, first, update)
    chosen = select(importer, data, indices)
    order = chosen.result_order
    leading = (*chosen.index_shape, *chosen.others)
    update = builder.emit(relax.op.broadcast_to(update, tuple(leading[a] for a in order)))
    update = permute(builder, update, invert(order))
    updates = builder.emit(relax.op.reshape(update, (prod(chosen.index_shape), *chosen.others)))
    position = builder.emit(relax.op.reshape(chosen.position, (prod(chosen.index_shape), 1)))
    moved = permute(builder, data, chosen.order)
    rows = builder.emit(relax.op.reshape(moved, (chosen.count, *chosen.others)))
    mode = "add" if (options and options[0]) or node.kwargs.get("accumulate") else "update"
    rows = builder.emit(relax.op.scatter_nd(rows, position, updates, mode))
    moved = builder.emit(relax.op.reshape(rows, static_shape(moved)))
    return permute(builder, moved, invert(chosen.order))


def fill_mask(
    builder: relax.BlockBuilder, data: relax.Expr, mask: relax.Expr, value: relax.Expr
) -> relax.Expr:
    """Set the elements that a mask selects to one value.

    The axes of the mask are the leading axes.
    """
    shape, rank = static_shape(mask), len(static_shape(data))
    mask = builder.emit(relax.op.reshape(mask, (*shape, *[1] * (rank - len(shape)))))
    value = builder.emit(relax.op.reshape(value, [1] * rank))
    return builder.emit(relax.op.where(mask, value, data))


REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
              "amin": "min", "mean": "add"}  # fmt: skip
"""Maps torch's names of reductions to TVM's names."""


def scatter(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``scatter``, ``scatter_add`` and ``scatter_reduce`` of a source or a number.

    Only the first elements of the source are used if the source is larger than the index. Raises
    ValueError for means of integers.
    """
    builder, x = importer.block_builder, importer.env[node.args[0]]
    axis, positions, source, *options = node.args[1:]
    shape = static_shape(importer.env[positions])
    rank, dtype = len(shape), dtype_of(x)
    position = count_from_start(builder, importer.env[positions], static_shape(x)[axis])
    if isinstance(source, torch.fx.Node):
        update = importer.env[source]
        ends = [0] * rank, [*shape]
        if static_shape(update) != shape:
            update = builder.emit(relax.op.strided_slice(update, [*range(rank)], *ends))
    else:
        update = relax.const(np.full(shape, source), dtype)
    stated = options[0] if options else node.kwargs.get("reduce")
    mode = "add" if kind_of(node) == "scatter_add" else REDUCTIONS.get(stated, "update")
    includes_self = node.kwargs.get("include_self", options[1] if len(options) > 1 else True)

    def write(data: relax.Expr, update: relax.Expr, mode: str) -> relax.Expr:
        return builder.emit(relax.op.scatter_elements(data, position, update, axis, mode))

    begin = (
        x
        if includes_self
        else write(x, relax.const(np.full(shape, start_of(mode, dtype)), dtype), "update")
    )
    total = write(begin, update, mode)
    if stated != "mean":
        return total
    if "float" not in dtype:
        problem = "means of integers are not supported, because their rounding is undefined"
        raise ValueError(f"{problem}; convert the integers to float32")
    ones = relax.const(np.ones(static_shape(x)), dtype)
    units = relax.const(np.ones(shape), dtype)
    zeros = relax.const(np.zeros(shape), dtype)
    counts = write(ones if includes_self else write(ones, zeros, "update"), units, "add")
    return builder.emit(relax.op.divide(total, counts))


def start_of(mode: str, dtype: str) -> float:
    if mode in ("add", "update", "mul"):
        return 1 if mode == "mul" else 0
    if "float" in dtype:
        return -np.inf if mode == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if mode == "max" else limits.max


def unfold(importer: Importer, node: torch.fx.Node) -> relax.Expr:
    """Import ``unfold(x, axis, size, step)``: windows of an axis, along a new last axis."""
    x, axis, size, step = node.args
    builder, data = importer.block_builder, importer.env[x]
    shape = static_shape(data)
    axis %= len(shape)
    starts = np.arange(0, shape[axis] - size + 1, step)
    positions = relax.const(starts[:, None] + np.arange(size), "int64")
    windows = builder.emit(relax.op.take(data, positions, axis=axis))
    order = [a for a in range(len(shape) + 1) if a != axis + 1]
    return permute(builder, windows, [*order, axis + 1])


INDEXING: dict[str, Convert] = {
    "index.Tensor": index,
    "index_put.default": index_put,
    **dict.fromkeys(
        ("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce",
         "scatter_add.default", "scatter_reduce.two"),
        scatter,
    ),
    "unfold.default": unfold,
}  # fmt: skip
