"""Other loops for an operator: blocks that fit a small fast memory, and short inner loops."""

from __future__ import annotations

from tvm.s_tir import Schedule

from firmwright.device import Extension, apply_default_loops, blocks

ROWS = 8
"""Rows of a channel that are brought, computed and taken away at once."""
INNER = 4
"""Steps of the innermost loop, written out."""


def in_blocks(schedule: Schedule) -> None:
    """Cut the loops of an elementwise region (N, C, H, W) into blocks, with copies of each."""
    apply_default_loops(schedule)
    (block,) = blocks(schedule)
    _, _, row, column = schedule.get_loops(block)
    outer, _ = schedule.split(row, [None, ROWS])
    for index in range(len(schedule.get(block).reads)):
        schedule.compute_at(schedule.cache_read(block, index, "local"), outer)
    schedule.reverse_compute_at(schedule.cache_write(block, 0, "local"), outer)
    _, inner = schedule.split(column, [None, INNER])
    schedule.unroll(inner)


def add(extension: Extension) -> None:
    extension.add("relax.add", schedule=in_blocks)
