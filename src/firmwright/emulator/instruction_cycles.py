"""Computes the clock cycles of every instruction of a firmware from the table of its core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firmwright.toolchain.cycle_tables import (
    CycleTable,
    InstructionSet,
    Pattern,
    load_instruction_set,
)
from firmwright.toolchain.instructions import Code, decode

ACCESSES = ("load", "load_update", "store", "float_load", "float_store")
"""The kinds of instructions that can follow a load in the pipeline without a stall."""

SHORT_REGISTERS = 0x7
"""The mask of a short number of a register."""


def compute_cycles(table: CycleTable, code: bytes) -> NDArray[np.uint16]:
    """Return the cycles of the instruction that begins at each halfword of a program.

    The cycles of an unconditional jump exclude the pipeline refill, which the counter adds to every
    jump.
    """
    instructions = load_instruction_set(table.instruction_set)
    program = decode(table.instruction_set, code)
    words = program.words
    cycles = np.full(len(words), table.kinds["other"].cycles, np.int64)
    accesses, results = np.zeros(len(words), bool), np.full(len(words), -1)
    pipelined, used = np.zeros((2, len(words)), np.int64)
    for pattern in reversed(instructions.kinds):
        cost = table.kinds.get(pattern.kind)
        if cost is None:
            continue  # the core lacks these instructions
        matches = program.find(pattern)
        refill = table.refill if pattern.jump else 0
        cycles[matches] = (
            cost.cycles - refill + cost.each * count_registers(pattern, words[matches])
        )
        accesses[matches] = pattern.kind in ACCESSES
        pipelined[matches] = 0 if cost.pipelined is None else cost.pipelined - cost.cycles
        used[matches] = 0 if cost.used is None else cost.used - cost.cycles
        if pattern.result is not None:
            results[matches] = read_register(
                instructions, words[matches], pattern.result, pattern.short
            )
    cycles += pipelined * accesses[program.next]
    cycles += used * find_uses(program, results, instructions)
    return np.maximum(cycles, 0).astype(np.uint16)


def find_uses(
    program: Code, results: NDArray[np.integer], instructions: InstructionSet
) -> NDArray[np.bool_]:
    """Return which instructions write a register that the next instruction reads."""
    uses = np.zeros(len(results), bool)
    following = program.words[program.next]
    for each in instructions.sources:
        matches = program.find(each)[program.next]
        for bit in each.registers:
            uses |= matches & (read_register(instructions, following, bit, each.short) == results)
    return uses & (results >= 0) & ~np.isin(results, instructions.fixed)


def read_register(
    instructions: InstructionSet, words: NDArray[np.uint32], bit: int, short: bool
) -> NDArray[np.integer]:
    """Return the number of a register whose lowest bit in each word is ``bit``."""
    if short:
        return (words >> bit & SHORT_REGISTERS) + instructions.first_short
    return words >> bit & (1 << instructions.register_bits) - 1


def count_registers(pattern: Pattern, words: NDArray[np.uint32]) -> NDArray[np.integer]:
    if pattern.words:
        counts: NDArray[np.integer] = words & pattern.words
    else:
        counts = np.bitwise_count(words & pattern.registers).astype(np.uint32)
    return counts
