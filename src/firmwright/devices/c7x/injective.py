"""Schedules elementwise regions like TI: blocks in local memory, vectors in the inner loop.

The schedule is for a region that computes each output element from input elements at the same
position. The inputs may be broadcast. The region is split into blocks of at most 16 KiB. While the
core computes one block, the DMA loads the next block and stores the previous one. The innermost
loop has one step per element of a vector. All other regions keep the default loops, because TI's
compiler has no other schedule for the C7x. The rules and numbers are from the public sources and
documentation of TI's C7x backend for TVM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

import tvm
from tvm import tirx
from tvm.s_tir import Schedule

from firmwright.codegen.c_source import flatten_prim_func
from firmwright.devices.c7x import transfers
from firmwright.devices.c7x.accesses import ElementwiseNest, ReadTensor, match_elementwise
from firmwright.devices.c7x.cost import Core, estimate_cycles
from firmwright.devices.c7x.streams import find_vector_nest, use_streams
from firmwright.devices.c7x.transfers import VECTOR_BYTES
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.lowering.loop_structure import (
    ScheduledRegion,
    blocks,
    count_iterations,
    schedule_region,
)

BLOCK_BYTES = 16 * 1024
"""The maximum bytes of a block, counted in the region's largest elements."""


@dataclass(frozen=True)
class BlockSplit:
    """A split of one axis into ``count`` equal parts.

    In each block, the axes before this axis have only one index.
    """

    axis: int
    count: int


def schedule_for_c7x(function: tirx.PrimFunc, core: Core) -> ScheduledRegion:
    """Return a region with the loops of TI's schedule for this core."""
    default = schedule_region(function)
    schedule = Schedule(tvm.IRModule({"main": default.function}))
    steps = sum(count_iterations(schedule, block) for block in blocks(schedule))
    nest = match_elementwise(schedule)
    if isinstance(nest, str):
        cycles = estimate_cycles(core, function, steps)
        return replace(default, note=f"Default loops: {nest}.", cycles=cycles)
    split = find_split(nest.extents, nest.element_bytes)
    moved = select_block_inputs(nest, split)
    refusal = explain_no_blocks(nest, split, moved, core.local_memory)
    if split is None or refusal:
        why_not, said = make_vectors(schedule, nest, 0), f"No blocks: {refusal}."
    else:
        make_blocks(schedule, nest, split, moved)
        why_not, said = make_vectors(schedule, nest, 1), describe_blocks(nest, split)
    made = use_annotations(schedule.mod["main"])
    lanes = 0 if why_not else core.vector // nest.element_bytes
    cycles = estimate_cycles(core, function, steps, lanes, bool(made.pointers))
    vectors = (
        f"No vectors: {why_not}." if why_not else f"The innermost loop is one vector. {made.note}"
    )
    return replace(made, note=f"{said} {vectors}", cycles=cycles)


def use_annotations(function: tirx.PrimFunc) -> ScheduledRegion:
    """Return the function with the DMA, vectors and streams according to the schedule's
    annotations.

    The annotations are ``DMA_LOOP`` and ``VECTOR_LOOP``. The note reports which unit delivers the
    inputs of a vector.
    """
    flat = transfers.mark_vector_loops(flatten_prim_func(function))
    made = transfers.insert_transfers(flat)
    if not find_vector_nest(flat.body):
        return made
    made, streams = use_streams(made)
    return replace(made, note=streams)


def find_split(extents: tuple[int, ...], element_bytes: int) -> BlockSplit | None:
    """Return the axis to split and the number of parts, or None if one block holds all elements.

    The axis is the innermost axis at which a block is too large. The parts are equal, and their
    number is the smallest number that makes blocks small enough.
    """
    size = element_bytes
    for axis in reversed(range(len(extents))):
        size *= extents[axis]
        if size > BLOCK_BYTES:
            fewest = -(-size // BLOCK_BYTES)
            counts = range(fewest, extents[axis] + 1)
            return BlockSplit(axis, next(n for n in counts if extents[axis] % n == 0))
    return None


def select_block_inputs(nest: ElementwiseNest, split: BlockSplit | None) -> tuple[ReadTensor, ...]:
    """Return the inputs that the DMA moves in blocks.

    These inputs have several axes and differ between blocks. The core reads all other inputs in
    place, for example a scale per channel or an input with gaps.
    """
    if split is None:
        return ()
    return tuple(
        i
        for i in nest.inputs
        if len(i.shape) > 1 and i.is_dense and is_worth_moving(i, nest.extents, split)
    )


def is_worth_moving(read: ReadTensor, extents: tuple[int, ...], split: BlockSplit) -> bool:
    """Return whether each block reads a different part of an input, of at least one vector."""
    follows = read.follows
    outside = (*extents[: split.axis], split.count)
    inside = (extents[split.axis] // split.count, *extents[split.axis + 1 :])
    differs = any(n > 1 and f for n, f in zip(outside, follows, strict=False))
    elements = prod(n for n, f in zip(inside, follows[split.axis :], strict=True) if f)
    return differs and elements * ELEMENT_BYTES[read.dtype] >= VECTOR_BYTES


def explain_no_blocks(
    nest: ElementwiseNest,
    split: BlockSplit | None,
    moved: tuple[ReadTensor, ...],
    local_memory: int,
) -> str:
    if split is None:
        return f"all tensors fit {BLOCK_BYTES:,} bytes"
    if block_elements(nest, split) < VECTOR_BYTES // nest.element_bytes:
        return "equal parts would be smaller than a vector"
    if not moved:
        return "no input with several axes moves with the blocks"
    needed = 2 * BLOCK_BYTES * (len(moved) + 1)
    if needed > local_memory:
        return f"two copies of each buffer need {needed:,} bytes; local memory has {local_memory:,}"
    return ""


def block_elements(nest: ElementwiseNest, split: BlockSplit) -> int:
    return prod(nest.extents[split.axis :]) // split.count


def describe_blocks(nest: ElementwiseNest, split: BlockSplit) -> str:
    count = prod(nest.extents[: split.axis]) * split.count
    size = block_elements(nest, split) * ELEMENT_BYTES[nest.dtype]
    return f"The DMA moves {count} blocks of {size:,} bytes during the computation."


def make_blocks(
    schedule: Schedule, nest: ElementwiseNest, split: BlockSplit, moved: tuple[ReadTensor, ...]
) -> None:
    reads = [
        schedule.cache_read(nest.block, i.read_index, f"{transfers.LOCAL_SCOPE}{n}")
        for n, i in enumerate(moved)
    ]
    write = schedule.cache_write(nest.block, 0, f"{transfers.LOCAL_SCOPE}{len(moved)}")
    loops = schedule.get_loops(nest.block)
    outer, _ = schedule.split(loops[split.axis], [split.count, None])
    block = schedule.fuse(*loops[: split.axis], outer)
    for read in reads:
        schedule.compute_at(read, block, preserve_unit_loops=True)
    schedule.reverse_compute_at(write, block, preserve_unit_loops=True)
    for copy in (*reads, write):
        piece = schedule.fuse(*schedule.get_loops(copy)[1:])
        schedule.annotate(piece, transfers.DMA_LOOP, 1)


def make_vectors(schedule: Schedule, nest: ElementwiseNest, outer: int) -> str:
    """Make the innermost loop one vector long, and return '' or the reason for a failure.

    After the ``outer`` loops, axes are fused if all inputs have equal strides along these axes.
    """
    if nest.calls:
        return f"it calls {', '.join(nest.calls)}"
    if nest.reads_table:
        return "it reads a table by value"
    loops = schedule.get_loops(nest.block)[outer:]
    inner = schedule.fuse(*loops[-min(count_fusable_axes(nest), len(loops)) :])
    length, factor = int(schedule.get(inner).extent), VECTOR_BYTES // nest.element_bytes
    if length % factor:
        return f"the inner loop's {length} steps are not whole vectors of {factor}"
    vectors, vector = schedule.split(inner, [None, factor])
    schedule.annotate(vectors, transfers.VECTOR_LOOP, 0)
    schedule.annotate(vector, transfers.VECTOR_LOOP, factor)
    return ""


def count_fusable_axes(nest: ElementwiseNest) -> int:
    """Return the number of last axes that can be fused for every input.

    An axis of length 1 can always be fused.
    """
    steps_of_axes = [
        tuple(i.strides[axis] for i in nest.inputs) if extent > 1 else ()
        for axis, extent in enumerate(nest.extents)
    ]
    last = next((steps for steps in reversed(steps_of_axes) if steps), ())
    return sum(1 for _ in takewhile(lambda steps: steps in ((), last), reversed(steps_of_axes)))
