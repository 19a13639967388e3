"""Keeps data-dependent indices and loop lengths within the arrays.

TVM's operators do not check their indices. This module limits each index that contains a load and
has no proven bound. A read uses the nearest element, and a write outside its array is skipped.
Other code does not change.
"""

from __future__ import annotations

from functools import reduce
from math import prod

import tvm
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_equal, structural_map, structural_walk

from firmwright.codegen.float_casts import depends_on_data, limit_casts
from firmwright.codegen.index_divisions import bind_ranges

BOUNDED = "bounded_index"
"""Marks an index that is within its array, although no analysis proves it."""

LARGEST_COUNT = 2**10
"""The maximum iterations of a loop whose length only data limits, e.g. the samples of RoiAlign."""

SUMS = (tirx.Add, tirx.Sub, tirx.Mul)

UNKNOWN = 2**31 - 1
"""The largest int32: the analyzer's upper bound for an unlimited length."""


def bound_data_indices(module: tvm.IRModule) -> tvm.IRModule:
    """Bound every index, cast and loop length that depends on data."""
    bounded = {name: bound_function(part) for name, part in module.functions.items()}
    return tvm.IRModule(bounded, attrs=module.attrs)


def bound_function(function: tirx.PrimFunc) -> tirx.PrimFunc:
    body = limit_casts(function.body)
    bounds = Bounds(body)
    rules = (
        (tvm.ir.TensorLoad, bounds.clamp_load),
        (tirx.BufferStore, bounds.guard_store),
        (tirx.For, LoopLengths(body, bounds.analyzer).limit),
    )
    return function.with_body(structural_map(body, rules))


def mark_bounded(index: tirx.Expr) -> tirx.Expr:
    """Mark an index that its kernel keeps within the array.

    The mark does not appear in the C code.
    """
    return tirx.call_pure_extern(str(index.ty.dtype), BOUNDED, index)


def is_marked(value: tirx.Expr) -> bool:
    is_call = isinstance(value, tvm.ir.Call) and len(value.args) == 2
    return is_call and getattr(value.args[0], "value", None) == BOUNDED


def drop_marked(index: tirx.Expr) -> tirx.Expr:
    def drop(call: tvm.ir.Call) -> tirx.Expr:
        return tirx.const(0, str(call.ty.dtype)) if is_marked(call) else call

    return structural_map(index, (tvm.ir.Call, drop))


def remove_marks(module: tvm.IRModule) -> tvm.IRModule:
    """Replace each mark with its index. Call this function after :func:`bound_data_indices`."""

    def unmark(call: tvm.ir.Call) -> tirx.Expr:
        return call.args[1] if is_marked(call) else call

    unmarked = {
        name: part.with_body(structural_map(part.body, (tvm.ir.Call, unmark)))
        for name, part in module.functions.items()
    }
    return tvm.IRModule(unmarked, attrs=module.attrs)


class Bounds:
    def __init__(self, body: tirx.Stmt) -> None:
        self.analyzer = tvm.sym.Analyzer()
        bind_ranges(body, self.analyzer)

    def is_open(self, index: tirx.Expr, length: int) -> bool:
        """Return whether an index depends on data and may be outside [0, length)."""
        if not depends_on_data(index) or not depends_on_data(drop_marked(index)):
            return False
        bound = self.analyzer.const_int_bound(index)
        return bool(bound.min_value < 0 or bound.max_value >= length)

    def clamp(self, buffer: tirx.Buffer, indices: list[tirx.Expr]) -> list[tirx.Expr]:
        """Return the indices, and clamp each open index to the nearest element."""
        clamped = []
        for index, length in zip(indices, read_shape(buffer), strict=True):
            if self.is_open(index, length):
                zero, last = (tirx.const(n, str(index.ty.dtype)) for n in (0, length - 1))
                index = tirx.max(tirx.min(self.limit_terms(index, buffer), last), zero)
            clamped.append(index)
        return clamped

    def clamp_load(self, load: tvm.ir.TensorLoad) -> tirx.Expr:
        if not any(map(depends_on_data, load.indices)):
            return load
        return tirx.BufferLoad(load.source, self.clamp(load.source, load.indices), load.span)

    def guard_store(self, store: tirx.BufferStore) -> tirx.Stmt:
        """Store only if the indices are within the buffer.

        The value may read the stored element.
        """
        buffer = store.buffer
        pairs = list(zip(store.indices, read_shape(buffer), strict=True))
        is_open = [self.is_open(index, length) for index, length in pairs]
        if not any(is_open):
            return store
        limited = [
            self.limit_terms(index, buffer) if opened else index
            for (index, _), opened in zip(pairs, is_open, strict=True)
        ]
        clamped = self.clamp(buffer, store.indices)

        def read_guarded(load: tvm.ir.TensorLoad) -> tirx.Expr:
            same = load.source.same_as(buffer) and structural_equal(list(load.indices), clamped)
            return tirx.BufferLoad(buffer, limited, load.span) if same else load

        value = structural_map(store.value, (tvm.ir.TensorLoad, read_guarded))
        within = [
            tirx.And(tirx.const(0, str(index.ty.dtype)) <= index, index < length)
            for index, (_, length), opened in zip(limited, pairs, is_open, strict=True)
            if opened
        ]
        guarded = tirx.BufferStore(buffer, value, limited, store.span)
        return tirx.IfThenElse(reduce(tirx.And, within), guarded, None)

    def limit_terms(self, index: tirx.Expr, buffer: tirx.Buffer) -> tirx.Expr:
        """Limit the terms of a sum so that the sum does not overflow.

        The limit is the number of elements plus the reach of the other terms. With one unlimited
        term, an index within the buffer does not change, and another index stays outside. With
        several unlimited terms of different signs, the result may be another index within the
        buffer.
        """
        limit = min(prod(read_shape(buffer)) + self.find_reach(index), UNKNOWN)
        return self.limit_term(index, limit) if isinstance(index, SUMS) else index

    def find_reach(self, index: tirx.Expr) -> int:
        """Return the maximum magnitude of an index without its unlimited terms."""
        if isinstance(index, SUMS):
            first, second = self.find_reach(index.a), self.find_reach(index.b)
            is_product = isinstance(index, tirx.Mul)
            return max(first, 1) * max(second, 1) if is_product else first + second
        bound = self.analyzer.const_int_bound(index)
        reach = max(abs(bound.min_value), abs(bound.max_value))
        return int(reach) if reach < UNKNOWN else 0

    def limit_term(self, index: tirx.Expr, limit: int) -> tirx.Expr:
        if isinstance(index, SUMS):
            return type(index)(*(self.limit_term(side, limit) for side in (index.a, index.b)))
        bound = self.analyzer.const_int_bound(index)
        if not depends_on_data(index) or -limit <= bound.min_value <= bound.max_value <= limit:
            return index
        low, high = (tirx.const(n, str(index.ty.dtype)) for n in (-limit, limit))
        return tirx.max(tirx.min(index, high), low)


def read_shape(buffer: tirx.Buffer) -> list[int]:
    return [int(length) for length in buffer.shape]


class LoopLengths:
    """Limits data-dependent numbers of iterations, and starts sums before these loops.

    TVM starts a sum in the first iteration of its loops. Without an iteration, no code would write
    the result.
    """

    def __init__(self, body: tirx.Stmt, analyzer: tvm.sym.Analyzer) -> None:
        self.analyzer = analyzer
        self.inner: set[tirx.Var] = set()
        structural_walk(body, (tirx.For, self.note_inner))

    def note_inner(self, loop: tirx.For) -> None:
        if depends_on_data(loop.extent):
            structural_walk(loop.body, (tirx.For, lambda inner: self.inner.add(inner.loop_var)))

    def limit(self, loop: tirx.For) -> tirx.Stmt:
        if not depends_on_data(loop.extent):
            return loop
        starts: list[tirx.Stmt] = []

        def take_start(realize: SBlockRealize) -> SBlockRealize:
            block = realize.block
            if block.init is None:
                return realize
            variables = [v.var for v in block.iter_vars]
            values_of = dict(zip(variables, realize.iter_values, strict=True))
            starts.append(structural_map(block.init, (tirx.Var, lambda v: values_of.get(v, v))))
            finished = SBlock(
                block.iter_vars, block.reads, block.writes, block.name_hint, block.body, None,
                block.alloc_buffers, block.match_buffers, block.annotations, block.span,
            )  # fmt: skip
            return SBlockRealize(realize.iter_values, realize.predicate, finished, realize.span)

        body = loop.body
        if loop.loop_var not in self.inner:
            body = structural_map(body, (SBlockRealize, take_start))
        extent = loop.extent
        if self.analyzer.const_int_bound(extent).max_value >= UNKNOWN:
            extent = tirx.min(extent, tirx.const(LARGEST_COUNT, str(extent.ty.dtype)))
        limited = tirx.For(
            loop.loop_var, loop.min, extent, loop.kind, body, loop.thread_binding,
            loop.annotations, loop.step, loop.span,
        )  # fmt: skip
        return tirx.SeqStmt([*starts, limited]) if starts else limited
