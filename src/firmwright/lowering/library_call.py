"""A tensor that a C function of the recipe's ``libraries`` computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import te, tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map


def library_call(function: str, shape: Sequence[int], dtype: str, *inputs: te.Tensor) -> te.Tensor:
    """Return the tensor that ``function(input ..., output)`` writes; for a strategy's compute.

    In C it is ``void function(DLTensor *, ..., DLTensor *)`` (fw_dltensor.h of the generated
    project). Every tensor is whole and lies in rows; the function reads the inputs and writes all
    of the last. Shapes have to be constants.
    """
    extents = [tirx.const(int(n), "int64") for n in shape]
    return te.extern(
        [extents],
        list(inputs),
        lambda ins, outs: build_call_block(function, ins, outs),
        in_buffers=[declare_buffer(x.shape, str(x.dtype)) for x in inputs],
        out_buffers=[declare_buffer(extents, dtype)],
        dtype=[dtype],
        name=function,
    )


def declare_buffer(shape: Sequence[Any], dtype: str) -> tirx.Buffer:
    # Without a layout, which the buffers of TVM's own formulas have not: else they do not fuse.
    return tirx.decl_buffer(shape, dtype, layout=None)


def build_call_block(function: str, ins: Sequence[Any], outs: Sequence[Any]) -> tirx.Stmt:
    """Return the call as a block that says what it reads and writes: schedules see no pointers."""
    call = tirx.Evaluate(tirx.call_packed(function, *ins, *outs))
    block = SBlock([], full_regions(ins), full_regions(outs), function, call)
    return SBlockRealize([], True, block)


def full_regions(buffers: Sequence[Any]) -> list[tirx.BufferRegion]:
    zero = tirx.const(0, "int64")
    return [tirx.BufferRegion(b, [tvm.ir.Range(zero, n) for n in b.shape]) for b in buffers]


def unwrap_library_calls(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Take away the block that TVM puts around a call: it says that nothing is read or written."""

    def unwrap(block: SBlock) -> SBlock:
        inner = block.body
        silent = not (block.reads or block.writes or block.iter_vars or block.alloc_buffers)
        around = silent and block.name_hint != "root" and isinstance(inner, SBlockRealize)
        return inner.block if around else block

    return function.with_body(structural_map(function.body, (SBlock, unwrap)))
