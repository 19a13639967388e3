"""Implements writes to computed positions: scatter_elements, scatter_nd and index_put.

TVM's loops compute the position of an element in the whole tensor. If an index were too large for
its axis, TVM's loops would write to the next row. The loops of this module keep one index per axis.
Therefore a write with an index out of range can be skipped
(:mod:`firmwright.codegen.data_indices`). Updates are applied in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script

from firmwright.ir.relax import static_shape
from firmwright.lowering.kernels.selection import if_then

Position = tuple[Any, ...]

COMBINATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda _, update: update,
    "add": lambda element, update: element + update,
    "mul": lambda element, update: element * update,
    "min": tirx.min,
    "max": tirx.max,
}
"""A mapping from reductions to functions that return a new element from the old and an update."""


@dataclass(frozen=True)
class Scatter:
    """Copies data, and combines the elements at computed positions with updates.

    ``turns`` are the lengths of the loops over the updates. ``read_indices`` receives the index
    tensors and a position in the loops, and returns one index per axis. The index is an integer of
    a tensor, or a loop variable. ``read_update`` returns the position of an update. If ``from_end``
    is true, a negative index counts from the end.
    """

    turns: tuple[int, ...]
    read_indices: Callable[[Sequence[Any], Position], list[Any]]
    read_update: Callable[[Position], Position]
    reduction: str
    from_end: bool

    def __call__(self, data: te.Tensor, updates: te.Tensor, *indices: te.Tensor) -> te.Tensor:
        tensors = [data, updates, *indices]
        return te.extern(
            [data.shape],
            tensors,
            lambda ins, outs: self.build_statement(ins, outs[0]),
            in_buffers=[tirx.decl_buffer(t.shape, str(t.dtype), layout=None) for t in tensors],
            out_buffers=[tirx.decl_buffer(data.shape, str(data.dtype), layout=None)],
            dtype=str(data.dtype),
            name="scattered",
        )

    def build_statement(self, inputs: Sequence[Any], result: Any) -> tirx.Stmt:
        with IRBuilder() as builder:
            shape = [int(length) for length in result.shape]
            data, updates, *indices = (script.buffer_proxy(b) for b in inputs)
            result = script.buffer_proxy(result)
            with script.seq_scope():
                with ExitStack() as loops:
                    target = enter_loops(loops, shape)
                    result[target] = data[target]
                with ExitStack() as loops:
                    position = enter_loops(loops, self.turns)
                    target_indices = self.read_indices(indices, position)
                    target = self.compute_position(target_indices, shape)
                    update = updates[self.read_update(position)]
                    result[target] = COMBINATIONS[self.reduction](result[target], update)
            return builder.get()

    def compute_position(self, indices: Sequence[Any], shape: Sequence[int]) -> Position:
        """Store the integers of index tensors in variables, and return all indices."""
        target = []
        for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
            if isinstance(index, tirx.Var):
                target.append(index)
                continue
            dtype = "int64" if str(index.ty.dtype) in ("int64", "uint32", "uint64") else "int32"
            kept = IRBuilder.name(f"place_{axis}", script.alloc_buffer([1], dtype))
            kept = script.buffer_proxy(kept)
            kept[0] = tirx.Cast(dtype, index)
            if self.from_end:
                with if_then(kept[0] < 0):
                    kept[0] = kept[0] + tirx.const(length, dtype)
            target.append(kept[0])
        return tuple(target)


def enter_loops(loops: ExitStack, lengths: Sequence[int]) -> Position:
    """Open one loop per length, and return the loop variables.

    If there is no length, the function opens one loop.
    """
    if not lengths:
        loops.enter_context(script.serial(0, 1))
    return tuple(
        IRBuilder.name(f"i{n}", loops.enter_context(script.serial(0, length)))
        for n, length in enumerate(lengths)
    )


def scatter_elements(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return loops for indices in the updates' shape, along one axis of the data."""
    data, indices, updates = call.args
    axis = int(call.attrs.axis) % len(static_shape(data))

    def read_indices(tensors: Sequence[Any], position: Position) -> list[Any]:
        target_indices: list[Any] = list(position)
        target_indices[axis] = tensors[0][position]
        return target_indices

    turns = tuple(static_shape(indices))
    scatter = Scatter(turns, read_indices, tuple, str(call.attrs.reduction), from_end=True)
    return emit_scatter(builder, scatter, "scatter_elements", data, updates, indices)


def scatter_nd(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return loops for index vectors.

    The vectors are along the last axis of the indices, and address the first axes of the data.
    Importers convert negative indices if the model format counts them from the end.
    """
    data, indices, updates = call.args
    *batch, count = static_shape(indices)

    def read_indices(tensors: Sequence[Any], position: Position) -> list[Any]:
        vector = position[: len(batch)]
        return [tensors[0][(*vector, n)] for n in range(count)] + [*position[len(batch) :]]

    turns = (*batch, *static_shape(data)[count:])
    scatter = Scatter(turns, read_indices, tuple, str(call.attrs.reduction), from_end=False)
    return emit_scatter(builder, scatter, "scatter_nd", data, updates, indices)


def index_put(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Return loops for one index tensor per axis. Indices and values are broadcast."""
    data, indices, values = call.args
    fields = list(indices.fields) if isinstance(indices, relax.Tuple) else [indices]
    shapes = [static_shape(field) for field in fields]
    turns = np.broadcast_shapes(*shapes)

    def read_indices(tensors: Sequence[Any], position: Position) -> list[Any]:
        pairs = zip(tensors, shapes, strict=True)
        return [tensor[broadcast(position, shape)] for tensor, shape in pairs]

    def read_update(position: Position) -> Position:
        return broadcast(position, static_shape(values))

    reduction = "add" if bool(call.attrs.accumulate) else "update"
    scatter = Scatter(turns, read_indices, read_update, reduction, from_end=True)
    return emit_scatter(builder, scatter, "index_put", data, values, *fields)


def broadcast(position: Position, shape: Sequence[int]) -> Position:
    last = position[len(position) - len(shape) :]
    return tuple(i if length > 1 else 0 for i, length in zip(last, shape, strict=True))


def emit_scatter(
    builder: relax.BlockBuilder, scatter: Scatter, name: str, *tensors: relax.Expr
) -> relax.Expr:
    return builder.call_te(scatter, *tensors, primfunc_name_hint=name)
