"""Creates the tensors that a C function of a library, or of a built-in operator, computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import te, tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm_ffi import structural_map

Results = Sequence[tuple[Sequence[int], str]]
"""The shape and dtype of each result."""


def library_call(function: str, shape: Sequence[int], dtype: str, *inputs: te.Tensor) -> te.Tensor:
    """Return the tensor that ``function(input ..., output)`` writes, for a strategy's compute.

    In C, the function is ``void function(DLTensor *, ..., DLTensor *)`` (fw_dltensor.h of the
    generated project). Every tensor is complete and stored in row-major order. The function reads
    the inputs and writes the whole last tensor. Shapes must be constants.
    """
    (result,) = call_library(function, [(shape, dtype)], inputs)
    return result


def call_library(function: str, results: Results, inputs: Sequence[te.Tensor]) -> list[te.Tensor]:
    """Return the tensors that ``function(input ..., output ...)`` writes.

    ``results`` has the shape and dtype of each tensor. See :func:`library_call`.
    """
    return create_results(
        function, results, inputs, lambda ins, outs: tirx.call_packed(function, *ins, *outs)
    )


def call_operator(
    function: str, results: Results, inputs: Sequence[te.Tensor], numbers: Sequence[int]
) -> list[te.Tensor]:
    """Return the tensors that a C function of ``templates/operators`` writes.

    The function's parameters are pointers to the inputs, the numbers (int32), and pointers to the
    results.
    """

    def call(ins: Sequence[Any], outs: Sequence[Any]) -> tirx.Expr:
        given = [tirx.const(int(number), "int32") for number in numbers]
        pointers, targets = ([buffer.data for buffer in buffers] for buffers in (ins, outs))
        return tirx.call_extern("int32", function, *pointers, *given, *targets)

    return create_results(function, results, inputs, call)


def create_results(
    function: str, results: Results, inputs: Sequence[te.Tensor], call: Callable[..., tirx.Expr]
) -> list[te.Tensor]:
    """Return the tensors that the expression ``call(inputs, results)`` of buffers writes."""
    extents = [[tirx.const(int(n), "int64") for n in shape] for shape, _ in results]
    dtypes = [dtype for _, dtype in results]
    tensors = te.extern(
        extents,
        list(inputs),
        lambda ins, outs: build_call_block(function, ins, outs, call(ins, outs)),
        in_buffers=[declare_buffer(x.shape, str(x.dtype)) for x in inputs],
        out_buffers=[declare_buffer(*each) for each in zip(extents, dtypes, strict=True)],
        dtype=dtypes,
        name=function,
    )
    return [tensors] if len(results) == 1 else list(tensors)


def declare_buffer(shape: Sequence[Any], dtype: str) -> tirx.Buffer:
    # Buffers have no layout, like the buffers of TVM's formulas, because operators with a layout do
    # not fuse.
    return tirx.decl_buffer(shape, dtype, layout=None)


def build_call_block(
    function: str, ins: Sequence[Any], outs: Sequence[Any], call: tirx.Expr
) -> tirx.Stmt:
    """Return the call as a block that declares its reads and writes.

    Schedules need the declarations, because schedules ignore accesses by pointers.
    """
    block = SBlock([], full_regions(ins), full_regions(outs), function, tirx.Evaluate(call))
    return SBlockRealize([], True, block)


def full_regions(buffers: Sequence[Any]) -> list[tirx.BufferRegion]:
    zero = tirx.const(0, "int64")
    return [tirx.BufferRegion(b, [tvm.ir.Range(zero, n) for n in b.shape]) for b in buffers]


def unwrap_library_calls(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Remove the block that TVM adds around a call. The block declares no reads and no writes."""

    def unwrap(block: SBlock) -> SBlock:
        inner = block.body
        silent = not (block.reads or block.writes or block.iter_vars or block.alloc_buffers)
        around = silent and block.name_hint != "root" and isinstance(inner, SBlockRealize)
        return inner.block if around else block

    return function.with_body(structural_map(function.body, (SBlock, unwrap)))
