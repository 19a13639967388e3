"""Decodes the instructions of a program that change the flow or the stack pointer.

``toolchains/control_flow`` contains the encodings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from firmwright.toolchain.descriptions import read_builtin_yaml
from firmwright.toolchain.families import find_family
from firmwright.toolchain.instructions import Code, Encoding, decode

Number = tuple[tuple[int, int, int], ...]
"""The parts of a constant: lowest bit in the instruction, width, lowest bit in the constant."""

FAR = {"computed_jump": "jump", "computed_call": "call"}
"""The kinds of RISC-V's jumps to a register that auipc has set."""


@dataclass(frozen=True)
class Flow:
    """Instructions that change the flow. ``far`` marks Thumb's encoding with two sign bits."""

    kind: str
    match: int
    mask: int
    number: Number = ()
    signed: bool = False
    far: bool = False


@dataclass(frozen=True)
class Move:
    """Instructions that change the stack pointer, which ``thumb.yaml`` describes."""

    match: int
    mask: int
    number: Number = ()
    signed: bool = False
    registers: int = 0
    bytes: int | None = None
    expanded: bool = False


@dataclass(frozen=True)
class ControlFlow:
    """The encodings of an instruction set for the ``families`` of architectures."""

    families: tuple[str, ...]
    base: int
    flow: tuple[Flow, ...]
    moves: tuple[Move, ...]


@cache
def load_control_flow(instruction_set: str) -> ControlFlow:
    file = files("firmwright.toolchains") / "control_flow" / f"{instruction_set}.yaml"
    return msgspec.convert(read_builtin_yaml(file.read_text(encoding="utf-8")), ControlFlow)


def find_instruction_set(architecture: str) -> str | None:
    """Return the instruction set of an architecture, or None if its encodings are not known."""
    family = find_family(architecture)
    known = ("riscv", "thumb")
    return next((name for name in known if family in load_control_flow(name).families), None)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A relevant instruction.

    ``kind`` is the kind of flow, or '' if the instruction only moves the stack pointer. ``target``
    is the address of a jump. ``move`` is the number of bytes that are added to the stack pointer,
    or None if the number is unknown. ``next`` is the address after the instruction. Thumb's ``it``
    and its ``block`` count as one instruction. The block contains the addresses of the conditional
    instructions, and whether each instruction runs if the condition is true.
    """

    kind: str
    next: int
    target: int | None = None
    move: int | None = 0
    block: tuple[tuple[int, bool], ...] = ()


class CodeSection:
    """The executable bytes at an address. Instructions are decoded when they are read."""

    def __init__(self, address: int, content: bytes, instruction_set: str) -> None:
        code = decode(instruction_set, content)
        self._encodings = load_control_flow(instruction_set)
        self.address, self.end = address, address + len(content)
        self._words, self._next = code.words.tolist(), code.next.tolist()
        self._flow = match_first(code, self._encodings.flow)
        self._moves = match_first(code, self._encodings.moves)

    def find_next(self, address: int) -> int:
        """Return the address of the first relevant instruction at or after an address."""
        index = (address - self.address) // 2
        last = len(self._words) - 1
        while index < last and self._flow[index] < 0 and self._moves[index] < 0:
            index = self._next[index]
        return self.address + 2 * index

    def read(self, address: int) -> Instruction:
        index = (address - self.address) // 2
        word, following = self._words[index], self.address + 2 * self._next[index]
        move = read_move(self._encodings.moves[m], word) if (m := self._moves[index]) >= 0 else 0
        if self._flow[index] < 0:
            return Instruction("", following, None, move)
        flow = self._encodings.flow[self._flow[index]]
        if flow.kind == "upper":
            return self._read_far(address, word, following)
        if flow.kind == "condition":
            return self._read_block(word, following)
        target = address + self._encodings.base + read_offset(flow, word) if flow.number else None
        return Instruction(flow.kind, following, target, move)

    def _read_far(self, address: int, word: int, following: int) -> Instruction:
        """Return RISC-V's pair of auipc and jalr as one jump or call with its target."""
        index = (following - self.address) // 2
        second, number = self._words[index], self._flow[index]
        kind = self._encodings.flow[number].kind if number >= 0 else ""
        same = second & 3 == 3 and second >> 15 & 31 == word >> 7 & 31
        if same and kind in FAR:
            upper, lower = word & 0xFFFFF000, (second >> 20 ^ 0x800) - 0x800
            target = address + upper + lower & 0xFFFFFFFF
            return Instruction(FAR[kind], self.address + 2 * self._next[index], target)
        return Instruction("", following)

    def _read_block(self, word: int, following: int) -> Instruction:
        """Return a block of Thumb's ``it``, which is empty for nop and hints.

        Source: Armv7-M ARM, A7.3.2.
        """
        block: list[tuple[int, bool]] = []
        first, mask = word >> 4 & 1, word & 15
        while mask & 15:
            block.append((following, not block or mask >> 4 & 1 == first))
            following = self.address + 2 * self._next[(following - self.address) // 2]
            mask <<= 1
        return Instruction("", following, block=tuple(block))


def match_first(code: Code, encodings: Sequence[Encoding]) -> list[int]:
    """Return the number of each instruction's first matching encoding, or -1 without a match."""
    indices = np.full(len(code.words), -1)
    for number, encoding in reversed([*enumerate(encodings)]):
        indices[code.find(encoding)] = number
    numbers: list[int] = indices.tolist()
    return numbers


def read_sections(image: ELFFile, instruction_set: str) -> Iterator[CodeSection]:
    for section in image.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR and section["sh_type"] != "SHT_NOBITS":
            yield CodeSection(int(section["sh_addr"]), section.data(), instruction_set)


def read_number(number: Number, word: int, signed: bool) -> int:
    value, top = 0, 0
    for bit, width, position in number:
        value |= (word >> bit & (1 << width) - 1) << position
        top = max(top, position + width)
    return value - (1 << top) if signed and value >> top - 1 else value


def read_offset(flow: Flow, word: int) -> int:
    if flow.far and not word >> 26 & 1:
        word ^= 1 << 11 | 1 << 13  # Armv7-M ARM, A7.7.12: I1 = NOT(J1 XOR S)
    return read_number(flow.number, word, flow.signed)


def read_move(move: Move, word: int) -> int | None:
    """Return the change of the stack pointer in bytes, or None if the change is unknown."""
    if move.bytes is None:
        return None
    if move.registers:
        return move.bytes * (word & move.registers).bit_count()
    number = read_number(move.number, word, move.signed)
    return move.bytes * (expand(number) if move.expanded else number)


def expand(number: int) -> int:
    """Return Thumb's modified constant. Source: Armv7-M ARM, A5.3.2."""
    low = number & 0xFF
    if number >> 10:
        turned, by = 0x80 | low & 0x7F, number >> 7
        return (turned >> by | turned << 32 - by) & 0xFFFFFFFF
    return low * (1, 0x10001, 0x1000100, 0x1010101)[number >> 8]
