"""Replaces copies between memories with DMA transfers that overlap with the computation.

Every local buffer has two halves. While the core computes one block from one half, the DMA loads
the next block into the other half. The DMA stores a result while the core computes the next result.
Each buffer has a separate DMA channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm_ffi import structural_map

from firmwright.ir.kernels import C_TYPES
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.loop_structure import Pointer, ScheduledRegion

LOCAL_SCOPE = "local"
"""The prefix of the scopes of local buffers. A number follows, so that all scopes differ."""
DMA_LOOP = "fw_dma"
"""The annotation of a loop that copies one block."""
VECTOR_LOOP = "fw_vector"
"""The annotation of a vector loop.

Its value is the number of steps, or 0 for a loop over vectors.
"""
LANE = "lane"
"""The variable's name in a loop that becomes a vector."""
VECTOR_MACRO = "FW_VECTOR_LOOP"
FUNCTIONS = frozenset({"fw_dma_start", "fw_dma_wait", VECTOR_MACRO})
HEADER = "fw_c7x.h"
VECTOR_BYTES = 64
"""The bytes that the innermost loop writes. A core with shorter vectors needs several steps."""


@dataclass(frozen=True)
class BlockCopy:
    """A loop that copies one block between local memory and ``outside``, and its DMA channel."""

    channel: int
    loop: tirx.For

    @property
    def is_load(self) -> bool:
        return str(self.loop.body.buffer.scope()).startswith(LOCAL_SCOPE)

    @property
    def local(self) -> tirx.Buffer:
        store = self.loop.body
        return store.buffer if self.is_load else store.value.source

    @property
    def outside(self) -> tvm.ir.TensorLoad:
        store = self.loop.body
        return store.value if self.is_load else tirx.BufferLoad(store.buffer, store.indices)

    @property
    def elements(self) -> int:
        return int(self.loop.extent)

    @property
    def bytes(self) -> int:
        return self.elements * ELEMENT_BYTES[str(self.local.dtype)]


def insert_transfers(function: tirx.PrimFunc) -> ScheduledRegion:
    """Replace the copies in the loops that ``make_blocks`` split in a flattened function.

    The new function has pointers to local memory after its original parameters.
    """
    pointers: list[tuple[tirx.Buffer, Pointer]] = []

    def block_loop(loop: tirx.For) -> tirx.Stmt:
        statements = list(getattr(loop.body, "seq", ()))
        copying = [s for s in statements if is_copy(s)]
        if not copying:
            return loop
        copies = [BlockCopy(channel, copy) for channel, copy in enumerate(copying)]
        halves = [make_double_buffer(copy) for copy in copies]
        pointers.extend((half, declare_pointer(half, halves[:n])) for n, half in enumerate(halves))
        rest = [s for s in statements if not is_copy(s) and not isinstance(s, tirx.AllocBuffer)]
        return pipeline_loop(loop, copies, halves, rest)

    body = structural_map(function.body, (tirx.For, block_loop))
    parameters = [*function.params, *(buffer for buffer, _ in pointers)]
    made = tirx.PrimFunc(parameters, body, function.ret_type, attrs=function.attrs)
    return ScheduledRegion(made, tuple(p for _, p in pointers), FUNCTIONS, (HEADER,))


def is_copy(statement: tirx.Stmt) -> bool:
    return isinstance(statement, tirx.For) and DMA_LOOP in statement.annotations


def make_double_buffer(copy: BlockCopy) -> tirx.Buffer:
    name = f"local_{copy.channel}"
    return tirx.decl_buffer((2 * copy.elements,), copy.local.dtype, name)


def declare_pointer(buffer: tirx.Buffer, before: Sequence[tirx.Buffer]) -> Pointer:
    kind, size = C_TYPES[str(buffer.dtype)], align_bytes(buffer)
    offset = sum(align_bytes(b) for b in before)
    name = str(buffer.name)
    return Pointer(name, f"{kind} *restrict {name} = fw_local({offset}, {size});")


def align_bytes(buffer: tirx.Buffer) -> int:
    """Return a buffer's bytes, rounded up so that the next buffer begins at a vector boundary."""
    size = int(buffer.shape[0]) * ELEMENT_BYTES[str(buffer.dtype)]
    return -(-size // VECTOR_BYTES) * VECTOR_BYTES


def pipeline_loop(
    loop: tirx.For,
    copies: Sequence[BlockCopy],
    halves: Sequence[tirx.Buffer],
    rest: list[tirx.Stmt],
) -> tirx.Stmt:
    """Return a loop that loads the next block while it computes the current block."""
    block = tirx.Var("block", loop.loop_var.ty)
    both = list(zip(copies, halves, strict=True))
    arriving = [(c, h) for c, h in both if c.is_load]
    leaving = [(c, h) for c, h in both if not c.is_load]
    coming = make_sequence([start_transfer(c, h, loop, block + 1) for c, h in arriving])
    steps = [
        *(wait_transfer(c) for c, _ in arriving),
        tirx.IfThenElse(block + 1 < loop.extent, coming, None),
        *(use_halves(substitute(s, loop.loop_var, block), both, block) for s in rest),
        *(wait_transfer(c) for c, _ in leaving),
        *(start_transfer(c, h, loop, block) for c, h in leaving),
    ]
    return make_sequence(
        [
            *(start_transfer(c, h, loop, loop.min) for c, h in arriving),
            tirx.For(block, loop.min, loop.extent, loop.kind, make_sequence(steps)),
            *(wait_transfer(c) for c, _ in leaving),
        ]
    )


def make_sequence(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    parts = list(statements)
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def substitute(part: tirx.Stmt | tirx.Expr, old: tirx.Var, new: tirx.Expr) -> tirx.Stmt | tirx.Expr:
    return structural_map(part, (tvm.ir.Var, lambda v: new if v.same_as(old) else v))


def start_transfer(
    copy: BlockCopy, half: tirx.Buffer, loop: tirx.For, block: tirx.Expr
) -> tirx.Stmt:
    """Return the start of a block's transfer. The block's number selects the half of the buffer."""
    outside = copy.outside
    here = tirx.BufferLoad(half, [block % 2 * copy.elements])
    index = substitute(outside.indices[0], copy.loop.loop_var, copy.loop.min)
    there = tirx.BufferLoad(outside.source, [substitute(index, loop.loop_var, block)])
    ends = (here, there) if copy.is_load else (there, here)
    addresses = [tirx.address_of(end) for end in ends]
    return make_call_stmt("fw_dma_start", copy.channel, *addresses, copy.bytes)


def wait_transfer(copy: BlockCopy) -> tirx.Stmt:
    return make_call_stmt("fw_dma_wait", copy.channel)


def make_call_stmt(name: str, *arguments: object) -> tirx.Stmt:
    return tirx.Evaluate(tirx.call_extern("int32", name, *arguments))


def use_halves(
    statement: tirx.Stmt, both: Sequence[tuple[BlockCopy, tirx.Buffer]], block: tirx.Expr
) -> tirx.Stmt:
    halves = {copy.local: (half, block % 2 * copy.elements) for copy, half in both}

    def load(load: tvm.ir.TensorLoad) -> tvm.ir.TensorLoad:
        if load.source not in halves:
            return load
        half, first = halves[load.source]
        return tirx.BufferLoad(half, [first + load.indices[0]])

    def store(store: tirx.BufferStore) -> tirx.BufferStore:
        if store.buffer not in halves:
            return store
        half, first = halves[store.buffer]
        return tirx.BufferStore(half, store.value, [first + store.indices[0]])

    return structural_map(statement, [(tvm.ir.TensorLoad, load), (tirx.BufferStore, store)])


def mark_vector_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Rename the variables of vector loops and enclosing loops, and insert a macro before vector
    loops."""

    def add_hint(loop: tirx.For) -> tirx.Stmt:
        if VECTOR_LOOP not in loop.annotations:
            return loop
        steps = int(loop.annotations[VECTOR_LOOP])
        variable = tirx.Var(LANE if steps else "vector", loop.loop_var.ty)
        body = substitute(loop.body, loop.loop_var, variable)
        plain = tirx.For(variable, loop.min, loop.extent, loop.kind, body)
        return tirx.SeqStmt([make_call_stmt(VECTOR_MACRO, steps), plain]) if steps else plain

    return function.with_body(structural_map(function.body, (tirx.For, add_hint)))
