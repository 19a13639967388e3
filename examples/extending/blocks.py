"""Other loops for an operator: blocks that the C7x's DMA moves, and vectors."""

from __future__ import annotations

from tvm.s_tir import Schedule

from firmwright.device import Extension, apply_default_loops, blocks

ROWS = 8
"""Rows of a channel that are loaded, computed and stored at once."""
LANES = 16
"""Floats per vector."""


def in_blocks(schedule: Schedule) -> None:
    """Split the loops of an elementwise region (N, C, H, W) into blocks, with copies of each.

    Buffers of scope ``local<number>`` are in the C7x's local memory, in two halves. A loop with
    the annotation ``fw_dma`` copies a block: the DMA moves it while the previous block is
    computed. ``fw_vector`` is 0 on the loop over vectors; on the inner loop it is the length of
    one vector.
    """
    apply_default_loops(schedule)
    (block,) = blocks(schedule)
    row = schedule.get_loops(block)[2]
    outer, _ = schedule.split(row, [None, ROWS])
    count = len(schedule.get(block).reads)
    copies = [schedule.cache_read(block, index, f"local{index}") for index in range(count)]
    for copy in copies:
        schedule.compute_at(copy, outer)
    copies.append(schedule.cache_write(block, 0, f"local{count}"))
    schedule.reverse_compute_at(copies[-1], outer)
    for copy in copies:
        schedule.annotate(schedule.fuse(*schedule.get_loops(copy)[3:]), "fw_dma", 1)
    vectors, lanes = schedule.split(schedule.fuse(*schedule.get_loops(block)[3:]), [None, LANES])
    schedule.annotate(vectors, "fw_vector", 0)
    schedule.annotate(lanes, "fw_vector", LANES)


def add(extension: Extension) -> None:
    extension.add("relax.add", schedule=in_blocks)
