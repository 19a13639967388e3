"""Selects the largest or smallest elements along an axis, in order: topk, sort and argsort.

TVM lowers these operators to calls of its runtime, which firmware does not contain. The loops of
this module insert each element of a row into a sorted list of the best elements. The list is the
result. Equal elements stay in order, as ONNX and TFLite require. Neither format has a rule for NaN,
and this module sorts NaN after every number. The worst case needs rows · length · k steps. If k is
small and the elements are in random order, few more than rows · length steps are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script

from firmwright.ir.relax import dtype_of, static_shape


@dataclass(frozen=True)
class Selection:
    """The ``count`` best elements along ``axis``, best first.

    The indices have the type ``index``.
    """

    count: int
    axis: int
    largest: bool
    index: str

    def __call__(self, data: te.Tensor) -> list[te.Tensor]:
        """Return the elements and their indices.

        The results have ``count`` elements along the axis, and otherwise the data's shape.
        """
        shape = [int(d) for d in data.shape]
        selected = list(data.shape)
        selected[self.axis] = tirx.const(self.count, data.shape[self.axis].ty.dtype)
        element = str(data.dtype)
        results: list[te.Tensor] = te.extern(
            [selected, selected],
            [data],
            lambda ins, outs: self.build_statement(ins[0], outs[0], outs[1], shape),
            # The buffers have no layout, like the buffers of TVM's operators. Operators do not fuse
            # with buffers that have a layout.
            in_buffers=[tirx.decl_buffer(data.shape, element, layout=None)],
            out_buffers=[tirx.decl_buffer(selected, d, layout=None) for d in (element, self.index)],
            dtype=[element, self.index],
            name="selected",
        )
        return results

    def build_statement(self, data: Any, values: Any, indices: Any, shape: list[int]) -> tirx.Stmt:
        """Insert every element that is among the best elements so far."""
        last = self.count - 1
        with IRBuilder() as builder:
            data, values, indices = (script.buffer_proxy(b) for b in (data, values, indices))
            with script.serial(0, 1), ExitStack() as loops:  # a builder contains one statement
                row = [
                    IRBuilder.name(f"i{n}", loops.enter_context(script.serial(0, extent)))
                    for n, extent in enumerate(shape[: self.axis] + shape[self.axis + 1 :])
                ]

                def at(position: Any) -> tuple[Any, ...]:
                    return (*row[: self.axis], position, *row[self.axis :])

                rank = IRBuilder.name("place", script.alloc_buffer([1], "int32"))
                rank = script.buffer_proxy(rank)
                with script.serial(0, shape[self.axis]) as i:
                    new = data[at(IRBuilder.name("i", i))]
                    with if_then(tirx.Or(i < self.count, self.comes_before(new, values[at(last)]))):
                        rank[0] = 0
                        with script.serial(0, self.count) as j:
                            old = values[at(IRBuilder.name("j", j))]
                            with if_then(tirx.And(j < i, self.stays_before(old, new))):
                                rank[0] = rank[0] + 1
                        with script.serial(0, self.count) as k:
                            target = last - IRBuilder.name("k", k)
                            with if_then(tirx.And(rank[0] < target, target <= i)):
                                values[at(target)] = values[at(target - 1)]
                                indices[at(target)] = indices[at(target - 1)]
                            with if_then(rank[0] == target):
                                values[at(target)] = new
                                indices[at(target)] = tirx.Cast(self.index, i)
            return builder.get()

    def comes_before(self, new: Any, old: Any) -> Any:
        better = new > old if self.largest else new < old
        if not is_float(new):
            return better
        return tirx.Or(better, tirx.And(tirx.isnan(old), tirx.Not(tirx.isnan(new))))

    def stays_before(self, old: Any, new: Any) -> Any:
        """Return the opposite of :meth:`comes_before`.

        The condition is not a negation, because TVM replaces not (a < b) with b <= a.
        """
        stays = old >= new if self.largest else old <= new
        return tirx.Or(stays, tirx.isnan(new)) if is_float(new) else stays


def is_float(value: Any) -> bool:
    return str(value.ty.dtype).startswith("float")


@contextmanager
def if_then(condition: Any) -> Iterator[None]:
    with script.If(condition), script.Then():
        yield


def topk(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    length = static_shape(call.args[0])[int(call.attrs.axis)]
    asked = int(call.attrs.k)
    count = asked if 0 < asked < length else length
    both = emit_selection(builder, call, count, bool(call.attrs.largest), str(call.attrs.dtype))
    kept = {"values": 0, "indices": 1}.get(str(call.attrs.ret_type))
    return both if kept is None else relax.TupleGetItem(both, kept)


def sort(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    length = static_shape(call.args[0])[int(call.attrs.axis)]
    both = emit_selection(builder, call, length, bool(call.attrs.descending), "int32")
    return relax.TupleGetItem(both, 0)


def argsort(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    length = static_shape(call.args[0])[int(call.attrs.axis)]
    descending = bool(call.attrs.descending)
    both = emit_selection(builder, call, length, descending, dtype_of(call))
    return relax.TupleGetItem(both, 1)


def emit_selection(
    builder: relax.BlockBuilder, call: tvm.ir.Call, count: int, largest: bool, index: str
) -> relax.Var:
    data = call.args[0]
    axis = int(call.attrs.axis) % len(static_shape(data))
    selection = Selection(count, axis, largest, index)
    return builder.emit_te(selection, data, primfunc_name_hint="selection")
