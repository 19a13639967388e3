"""Rewrites quotients and remainders in indices into a form that TVM handles correctly.

TVM 0.27 reads an index as a sum of loop variables. TVM loses the constant of a decreasing dividend,
as in ``(11 - i) % 12``. It also loses some constants after another division, as in ``(i + 11) // 3
% 12``. TVM does not analyze divisions that round toward zero, like C's divisions.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.s_tir import SBlock
from tvm_ffi import structural_map, structural_walk

FLOORS = (tirx.FloorDiv, tirx.FloorMod)

LARGEST_SHIFT = 2**16
"""The maximum addition to a dividend. A larger number could overflow an index of 32 bits."""


def protect_index_divisions(module: tvm.IRModule) -> tvm.IRModule:
    """Simplify the divisions in indices that TVM handles incorrectly.

    The remaining divisions in these indices round toward zero.

    Raises ValueError if a divisor is zero or not a number.
    """
    protected = {name: protect_function(part) for name, part in module.functions.items()}
    return tvm.IRModule(protected, attrs=module.attrs)


def protect_function(function: tirx.PrimFunc) -> tirx.PrimFunc:
    analyzer = tvm.sym.Analyzer()
    bind_ranges(function.body, analyzer)
    refused: list[tirx.Expr] = []

    def round_part(part: tirx.FloorDiv | tirx.FloorMod) -> tirx.Expr:
        if counts_up(part):
            return part
        if isinstance(part.b, tirx.IntImm) and part.b.value:
            return round_toward_zero(part, analyzer)
        refused.append(part)
        return part

    def protect(index: tirx.Expr) -> tirx.Expr:
        if not is_misread(index):
            return index
        return structural_map(analyzer.simplify(index), (FLOORS, round_part))

    def protect_load(load: tvm.ir.TensorLoad) -> tirx.Expr:
        return tirx.BufferLoad(load.source, [protect(i) for i in load.indices], load.span)

    def protect_store(store: tirx.BufferStore) -> tirx.Stmt:
        indices = [protect(i) for i in store.indices]
        return tirx.BufferStore(store.buffer, store.value, indices, store.span)

    replaced = ((tvm.ir.TensorLoad, protect_load), (tirx.BufferStore, protect_store))
    body = structural_map(function.body, replaced)
    if refused:
        raise ValueError(
            f"an index is divided by a value that is not a constant number: {refused[0]}"
        )
    return function.with_body(body)


def bind_ranges(body: tirx.Stmt, analyzer: tvm.sym.Analyzer) -> None:
    def bind_loop(loop: tirx.For) -> None:
        analyzer.bind(loop.loop_var, tvm.ir.Range.from_min_extent(loop.min, loop.extent))

    def bind_block(block: SBlock) -> None:
        for variable in block.iter_vars:
            analyzer.bind(variable.var, variable.dom)

    structural_walk(body, ((tirx.For, bind_loop), (SBlock, bind_block)))


def is_misread(index: tirx.Expr) -> bool:
    """Return whether an index divides more than variables, or subtracts and divides.

    TVM's FlattenBuffer fails for ``i % 2 - i``.
    """
    divided: list[bool] = []
    subtracted: list[tirx.Sub] = []
    structural_walk(index, (FLOORS, lambda part: divided.append(not counts_up(part))))
    structural_walk(index, (tirx.Sub, subtracted.append))
    return any(divided) or bool(divided and subtracted)


def counts_up(index: tirx.Expr) -> bool:
    """Return whether an index is a sum of variables with positive factors or divisors."""
    if isinstance(index, tirx.Add):
        return counts_up(index.a) and counts_up(index.b)
    if isinstance(index, (tirx.Mul, *FLOORS)):
        return counts_up(index.a) and (isinstance(index.b, tirx.IntImm) and index.b.value > 0)
    return isinstance(index, tirx.Var)


def round_toward_zero(
    division: tirx.FloorDiv | tirx.FloorMod, analyzer: tvm.sym.Analyzer
) -> tirx.Expr:
    """Return a floor division or remainder by a constant in terms of C's division.

    TVM's simplification can make the divisor negative. The signs of divisor and dividend then
    change.
    """
    dtype, divisor = str(division.ty.dtype), abs(division.b.value)
    sign = 1 if division.b.value > 0 else -1
    dividend = analyzer.simplify(division.a * sign)
    low = analyzer.const_int_bound(dividend).min_value
    if low < -LARGEST_SHIFT:
        rest = tirx.truncmod(tirx.truncmod(dividend, divisor) + divisor, divisor)
        quotient = tirx.truncdiv(dividend - rest, divisor)
    else:
        turns = max(0, -(low // divisor))
        shifted = dividend + tirx.const(turns * divisor, dtype)
        rest = tirx.truncmod(shifted, divisor)
        quotient = tirx.truncdiv(shifted, divisor) - tirx.const(turns, dtype)
    return rest * sign if isinstance(division, tirx.FloorMod) else quotient
