"""Loads the tables of clock cycles per instruction that the suppliers of cores publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from firmwright.documents.schema_check import Finding
from firmwright.errors import did_you_mean
from firmwright.toolchain.descriptions import DescriptionKind, keep_ready, read_builtin_yaml


@dataclass(frozen=True)
class InstructionCost:
    """The cycles of one kind of instruction if the memories have no wait states.

    ``each`` is added per register of a list. ``pipelined`` replaces ``cycles`` if the next
    instruction also accesses memory. ``used`` replaces ``cycles`` if the next instruction reads the
    result of this instruction.
    """

    cycles: int
    each: int = 0
    pipelined: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class CycleTable:
    """The cycles of each kind of instruction on a core.

    ``other`` is the kind of all other instructions. ``refill`` is the number of additional cycles
    of a branch that jumps. The costs of instructions that always jump include these cycles.
    ``misaligned`` is added if the jump leads to a 32-bit instruction at an address that is not a
    multiple of 4. ``lacks`` are the kinds of instructions that the core does not have.
    ``architectures`` are the architectures of the core. An empty list means every architecture of
    the instruction set.
    """

    core: str
    instruction_set: str
    refill: int
    kinds: Mapping[str, InstructionCost]
    misaligned: int = 0
    architectures: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class CycleBound:
    """The maximum number of instructions per cycle of a core without published cycles."""

    core: str
    architectures: tuple[str, ...]
    instructions_per_cycle: int

    def count_cycles(self, instructions: int) -> int:
        """Return the minimum number of cycles of executed instructions."""
        return -(-instructions // self.instructions_per_cycle)

    def __str__(self) -> str:
        return f"{self.core} executes at most {self.instructions_per_cycle} instructions per cycle"


@dataclass(frozen=True)
class Pattern:
    """The encodings of a kind of instruction, which equal ``match`` in the bits of ``mask``.

    ``registers`` is the mask of a list of registers, and ``words`` is the mask of the number of
    registers. If ``jump`` is set, the instruction always jumps. ``result`` is the lowest bit of the
    number of the register that the instruction writes. A ``short`` number has three bits.
    """

    kind: str
    match: int
    mask: int
    registers: int = 0
    words: int = 0
    jump: bool = False
    result: int | None = None
    short: bool = False


@dataclass(frozen=True)
class Sources:
    """The lowest bits of the numbers of the registers that instructions read.

    The other fields are fields of :class:`Pattern`.
    """

    match: int
    mask: int
    registers: tuple[int, ...]
    short: bool = False


@dataclass(frozen=True)
class InstructionSet:
    """The patterns of an instruction set, in the order in which they are tried.

    ``family`` is the family of the set's architectures. ``register_bits`` is the length of a
    register's number. The short number 0 means the register ``first_short``. Writes to the
    registers in ``fixed`` have no effect.
    """

    family: str
    register_bits: int
    kinds: tuple[Pattern, ...]
    first_short: int = 0
    fixed: tuple[int, ...] = ()
    sources: tuple[Sources, ...] = ()


def find_kind_errors(data: Mapping[str, Any], _folder: Path) -> Iterator[Finding]:
    """Yield the kinds of instructions that a table omits, and the wrong kinds in ``lacks``.

    Instructions of an omitted kind would count as ``other``.
    """
    name = data["instruction_set"]
    known = {pattern.kind for pattern in load_instruction_set(name).kinds}
    for number, kind in enumerate(data["lacks"]):
        pointer = ("lacks", number)
        if kind in data["kinds"]:
            yield Finding(
                pointer, f"'{kind}' is also in `kinds`; remove it from `lacks` or `kinds`"
            )
        elif kind not in known:
            hint = did_you_mean(kind, known)
            yield Finding(pointer, f"the instruction set '{name}' has no kind '{kind}'{hint}")
    for kind in sorted(known - {*data["kinds"], *data["lacks"]}):
        message = f"the kind '{kind}' is missing; add its cycles, or add '{kind}' to `lacks`"
        yield Finding(("kinds",), f"{message} if {data['core']} does not have these instructions")


CYCLE_TABLES = DescriptionKind("cycle table", "cycles", "cycles.schema.json", find_kind_errors)


@keep_ready
def load_cycle_table(name_or_path: str, relative_to: Path | None = None) -> CycleTable:
    """Return the table of this name, or of a custom YAML file.

    Raises UserError if the name is unknown, and DiagnosticError if the file has errors.
    """
    return msgspec.convert(CYCLE_TABLES.load(name_or_path, relative_to), CycleTable)


@cache
def load_cycle_bounds() -> Mapping[str, CycleBound]:
    """Return the bounds of architectures without a table of cycles."""
    folder = files("firmwright.toolchains") / "cycles" / "bounds"
    texts = (file.read_text(encoding="utf-8") for file in folder.iterdir())
    bounds = [msgspec.convert(read_builtin_yaml(text), CycleBound) for text in texts]
    return {architecture: bound for bound in bounds for architecture in bound.architectures}


@cache
def load_instruction_set(name: str) -> InstructionSet:
    file = files("firmwright.toolchains") / "instruction_sets" / f"{name}.yaml"
    return msgspec.convert(read_builtin_yaml(file.read_text(encoding="utf-8")), InstructionSet)
