"""Computes the clock cycles of every instruction of a firmware, by the table of its core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firmwright.toolchain.cycle_tables import CycleTable, Pattern, load_patterns

WIDE = 0x1D
"""The lowest five top bits of the first halfword of a 32-bit instruction (Armv7-M ARM, A5.1)."""

ACCESSES = ("load", "load_update", "store", "float_load", "float_store")
"""The kinds of instructions that can run in the pipeline directly after a load."""


def compute_cycles(table: CycleTable, code: bytes) -> NDArray[np.uint16]:
    """Return the cycles of the instruction that begins at each halfword of Thumb code.

    The cycles include the refill of the pipeline only for instructions that may jump or not:
    it is subtracted from instructions that always jump, because the counter adds it.
    """
    halfwords = np.frombuffer(code[: len(code) // 2 * 2], "<u2").astype(np.uint32)
    following = np.append(halfwords[1:], np.uint32(0))
    wide = halfwords >> 11 >= WIDE
    words = np.where(wide, halfwords << 16 | following, halfwords)
    cycles = np.full(len(words), table.kinds["other"].cycles, np.uint16)
    accesses = np.zeros(len(words), bool)
    pipelined = np.zeros(len(words), np.uint16)
    for pattern in reversed(load_patterns(table.instruction_set)):
        cost = table.kinds.get(pattern.kind)
        if cost is None:
            continue  # the core lacks these instructions
        found = find_instructions(pattern, words, wide)
        accesses[found] = pattern.kind in ACCESSES
        refill = table.refill if pattern.jump else 0
        cycles[found] = cost.cycles - refill + cost.each * count_registers(pattern, words[found])
        pipelined[found] = 0 if cost.pipelined is None else cost.cycles - cost.pipelined
    place = np.arange(len(words)) + 1 + wide
    followed = np.append(accesses, [False, False])[place]
    result: NDArray[np.uint16] = cycles - pipelined * followed
    return result


def find_instructions(
    pattern: Pattern, words: NDArray[np.uint32], wide: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which of the words match the pattern and have its size."""
    found: NDArray[np.bool_] = (words & pattern.mask) == pattern.match
    found &= wide == (pattern.mask > 0xFFFF)
    return found


def count_registers(pattern: Pattern, words: NDArray[np.uint32]) -> NDArray[np.integer]:
    """Return the number of registers that each of the instructions loads or stores."""
    counts: NDArray[np.integer] = words & pattern.words
    return counts if pattern.words else np.bitwise_count(words & pattern.registers)
