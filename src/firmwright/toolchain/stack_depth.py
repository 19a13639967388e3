"""Proves the maximum stack depth of a function from the machine code of an ELF.

The analysis follows all branches of every function that can be called. Therefore the bound is valid
for every compiler, and for libraries without source code.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile

from firmwright.toolchain.control_flow import (
    CodeSection,
    Instruction,
    find_instruction_set,
    read_sections,
)
from firmwright.toolchain.elf_symbols import FUNCTION, read_symbols


@dataclass(frozen=True, slots=True)
class StackDepth:
    """The maximum stack of a function with all called functions, in bytes.

    ``bytes`` is None if the depth cannot be proven. In this case, ``unknown`` contains the reason.
    ``frames`` are the functions of the deepest chain of calls with their numbers of bytes.
    """

    bytes: int | None
    unknown: str = ""
    frames: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"not known: {self.unknown}" if self.bytes is None else f"{self.bytes:,} bytes"


MAPPING = ("$t", "$x", "$d")
"""The prefixes of the symbols that mark code and data.

Source: ELF for the Arm Architecture (IHI 0044), 4.5.5.
"""

SWITCH = "__gnu_thumb1_case_"
"""The prefix of libgcc's functions that jump according to the table after their call."""

END = (-1, 0)
"""The address and the depth after the last instruction of a branch."""

ENDS = frozenset({"jump", "return", "stop", "computed_jump"})
"""The kinds of instructions after which the next instruction does not run."""


class UnprovenError(Exception):
    """Reports the reason why the stack depth of a function is unknown."""


@dataclass
class Frame:
    """The deepest stack of a function, and the depth and the target of each call.

    The target is None for a call through a pointer.
    """

    bytes: int = 0
    calls: set[tuple[int, int | None]] = field(default_factory=set)


def prove_stack(
    elf: Path, architecture: str, function: str, pointers: Iterable[str] = ()
) -> StackDepth:
    """Return the stack that a function needs.

    ``pointers`` are the functions that calls through pointers may reach.
    """
    instruction_set = find_instruction_set(architecture)
    if instruction_set is None:
        return StackDepth(None, f"the machine code of {architecture} is not analyzed")
    with elf.open("rb") as stream:
        image = ELFFile(stream)
        sections = [*read_sections(image, instruction_set)]
        table = read_symbols(image)
    symbols = [symbol for symbol in table if symbol.kind == FUNCTION and symbol.section]
    odd = 1 if instruction_set == "thumb" else 0  # Arm marks Thumb code with an odd address
    addresses = {symbol.name: symbol.value & ~odd for symbol in symbols}
    if function not in addresses:
        return StackDepth(None, f"the firmware has no function {function}")
    reached = sorted({addresses[name] for name in pointers if name in addresses})
    names = {symbol.value & ~odd: symbol.name for symbol in reversed(symbols)}
    data = sorted((s.value & ~odd, s.name[:2] == "$d") for s in table if s.name[:2] in MAPPING)
    program = CallGraph(sections, names, reached, data)
    try:
        total, frames = program.measure(addresses[function], ())
    except UnprovenError as error:
        return StackDepth(None, str(error))
    return StackDepth(total, "", frames)


class CallGraph:
    """The functions of an ELF, their addresses, and the functions that ``pointers`` may reach.

    ``parts`` are the addresses at which code or data begins, and whether data begins there.
    """

    def __init__(
        self,
        sections: Sequence[CodeSection],
        names: Mapping[int, str],
        pointers: Sequence[int],
        parts: Sequence[tuple[int, bool]],
    ) -> None:
        self._sections, self._names, self.pointers = sections, names, pointers
        self._parts = parts
        self._entries = sorted(names)
        self._known: dict[int, tuple[int, tuple[tuple[str, int], ...]]] = {}

    def name(self, address: int) -> str:
        return self._names.get(address, f"{address:#x}")

    def measure(
        self, start: int, callers: tuple[int, ...]
    ) -> tuple[int, tuple[tuple[str, int], ...]]:
        """Return the depth of a function, and the deepest chain of its calls.

        Raises UnprovenError if a function is recursive or the code cannot be followed.
        """
        if start in callers:
            raise UnprovenError(f"{self.name(start)} calls itself")
        if start not in self._known:
            frame = Trace(self, start).run()
            best: tuple[int, tuple[tuple[str, int], ...]] = (frame.bytes, ())
            chain = [(self.name(start), frame.bytes)]
            for depth, target in frame.calls:
                if target is None and not self.pointers:
                    raise UnprovenError(f"{self.name(start)} calls by a pointer")
                for callee in self.pointers if target is None else (target,):
                    below, frames = self.measure(callee, (*callers, start))
                    best = max(best, (depth + below, ((chain[0][0], depth), *frames)))
            self._known[start] = (best[0], best[1] or tuple(chain))
        return self._known[start]

    def find_section(self, address: int) -> CodeSection:
        for section in self._sections:
            if section.address <= address < section.end:
                return section
        raise UnprovenError(f"the called address {address:#x} contains no code")

    def is_entry(self, address: int) -> bool:
        return address in self._names

    def is_data(self, address: int) -> bool:
        number = bisect(self._parts, (address, True))
        return number > 0 and self._parts[number - 1][1]

    def find_end(self, start: int) -> int:
        """Return the address of the next function, or the end of the section."""
        number = bisect(self._entries, start)
        end = self.find_section(start).end
        return min([end, *self._entries[number : number + 1]])

    def are_one(self, start: int, address: int | None) -> bool:
        return address is not None and start < address < self.find_end(start)


class Trace:
    """Follows all branches of a function, and computes the stack depth of each branch."""

    def __init__(self, program: CallGraph, start: int) -> None:
        self._program, self._start = program, start
        self._section = program.find_section(start)
        self._seen: dict[int, int] = {}
        self._followed: set[int] = set()
        self._table = -1  # the depth of the deepest table jump
        self._pending = [(start, 0)]
        self._frame = Frame()

    def run(self) -> Frame:
        """Return the frame. Raises UnprovenError if the code cannot be followed."""
        self._follow_pending()
        if self._table >= 0:
            assumed = self._table
            self._follow_table(assumed)
            if self._table > assumed:
                raise self._fail("jumps by a table to a jump by a table", self._start)
        return self._frame

    def _follow_pending(self) -> None:
        while self._pending:
            at, depth = self._pending.pop()
            while at >= 0:
                at, depth = self._follow(self._section.find_next(at), depth)

    def _follow_table(self, depth: int) -> None:
        """Follow all other code of the function from the depth of the deepest table jump.

        A table can contain each address that is not the target of another instruction.
        """
        at, end = self._start, self._program.find_end(self._start)
        while (at := self._section.find_next(at)) < end:
            if self._program.is_data(at):
                at += 2
                continue
            if at not in self._seen:
                self._pending.append((at, depth))
                self._follow_pending()
            at = self._section.read(at).next

    def _follow(self, at: int, depth: int) -> tuple[int, int]:
        """Return the address after an instruction and the depth at this address, or END."""
        if at >= self._section.end:
            raise self._fail("ends without a return", at)
        if self._seen.setdefault(at, depth) != depth:
            raise self._fail("moves its stack pointer by different numbers", at)
        if at in self._followed:
            return END
        self._followed.add(at)
        return self._run(at, depth)

    def _run(self, at: int, depth: int) -> tuple[int, int]:
        """Run an instruction, and return the next address and the depth at this address, or END."""
        instruction = self._section.read(at)
        if instruction.move is None or instruction.kind == "unusual":
            raise self._fail("moves its stack pointer by a number that is not constant", at)
        if instruction.kind == "loop_part":
            raise self._fail("has a hardware loop of separate instructions", at)
        if instruction.kind == "loop" and self._section.find_next(instruction.next) < (
            instruction.target or 0
        ):
            raise self._fail("jumps or moves its stack pointer in a hardware loop", at)
        for holds in (False, True) if instruction.block else ():
            self._pending.append(self._run_block(instruction, depth, holds))
        depth -= instruction.move
        self._frame.bytes = max(self._frame.bytes, depth)
        # Clang's far jump on Armv6-M is a call into the same function, which does not return.
        far = instruction.kind == "call" and self._program.are_one(self._start, instruction.target)
        switch = (
            self._program.name(instruction.target).startswith(SWITCH)
            if instruction.target
            else False
        )
        if switch or instruction.kind == "computed_jump":
            self._table = max(self._table, depth)
            if depth == 0 and not switch and self._program.pointers:
                self._frame.calls.add((0, None))  # possibly a tail call through a pointer
        if instruction.target is not None and (far or instruction.kind in ("branch", "jump")):
            self._jump(instruction.target, depth)
        elif not switch and instruction.kind in ("call", "computed_call"):
            self._frame.calls.add((depth, instruction.target))
        # A compiler puts data after a call only if the called function does not return.
        last = instruction.kind == "call" and self._program.is_data(instruction.next)
        ends = far or switch or last or instruction.block or instruction.kind in ENDS
        return END if ends else (instruction.next, depth)

    def _run_block(self, instruction: Instruction, depth: int, holds: bool) -> tuple[int, int]:
        """Return the address after a conditional block and the depth at this address, or END.

        ``holds`` states whether the block's condition is true.
        """
        for address in (address for address, when in instruction.block if when == holds):
            at, depth = self._run(address, depth)
            if at < 0:
                return END
        return instruction.next, depth

    def _jump(self, target: int, depth: int) -> None:
        """Record a jump to code of this function, or a tail call of another function."""
        inside = self._section.address <= target < self._section.end
        if (target != self._start and self._program.is_entry(target)) or not inside:
            self._frame.calls.add((depth, target))
        else:
            self._pending.append((target, depth))

    def _fail(self, problem: str, at: int) -> UnprovenError:
        return UnprovenError(f"{self._program.name(self._start)} {problem} at {at:#x}")
