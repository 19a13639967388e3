"""Decodes the sizes of a program's instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Encoding(Protocol):
    """The encodings that equal ``match`` in the bits of ``mask``."""

    @property
    def match(self) -> int: ...
    @property
    def mask(self) -> int: ...


@dataclass(frozen=True)
class Code:
    """The instruction that begins at each halfword of a program, in ``instruction_set``.

    ``words`` contains the 16 bits of each instruction, or 32 bits if the instruction is ``wide``.
    ``next`` is the position of the next instruction. The last position is after the program and has
    the word 0.
    """

    instruction_set: str
    words: NDArray[np.uint32]
    wide: NDArray[np.bool_]
    next: NDArray[np.intp]

    def find(self, encoding: Encoding) -> NDArray[np.bool_]:
        """Return whether each word matches an encoding and its size."""
        matches: NDArray[np.bool_] = (self.words & encoding.mask) == encoding.match
        wide = encoding.mask > 0xFFFF
        if self.instruction_set == "riscv":
            wide |= encoding.match & encoding.mask & 3 == 3  # the unprivileged ISA, 1.5
        matches &= self.wide == wide
        return matches


def decode(instruction_set: str, code: bytes) -> Code:
    """Return the instructions of a program.

    The first halfword of each instruction determines the size.
    """
    halfwords = np.frombuffer(code + bytes(4), "<u2", len(code) // 2 + 2).astype(np.uint32)
    first, second = halfwords[:-1], halfwords[1:]
    if instruction_set == "thumb":
        wide = first >> 11 >= 0x1D  # Armv7-M ARM, A5.1
        both = first << 16 | second
    else:
        wide = first & 3 == 3  # RISC-V unprivileged ISA, 1.5
        both = second << 16 | first
    following = np.minimum(np.arange(len(first)) + 1 + wide, len(first) - 1)
    return Code(instruction_set, np.where(wide, both, first), wide, following)
