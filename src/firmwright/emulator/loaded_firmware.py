"""Reads a linked firmware for the emulators: bytes with their addresses, and function names."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from firmwright.errors import UserError, did_you_mean
from firmwright.toolchain.elf_symbols import FUNCTION, UNDEFINED, read_symbols
from firmwright.toolchain.flash_images import Segment, join_segments, list_segments


@dataclass(frozen=True, order=True)
class FunctionSymbol:
    """A function symbol. ``address`` is the address of its first instruction, without Thumb bit."""

    address: int
    size: int  # in bytes; 0 if the assembly source has no size
    name: str


@dataclass(frozen=True)
class Symbols:
    """The sorted function symbols of a firmware. The last symbol at an address applies."""

    functions: tuple[FunctionSymbol, ...]

    @cached_property
    def _addresses(self) -> list[int]:
        return [function.address for function in self.functions]

    def name_at(self, address: int) -> str:
        """Return the function that contains ``address``, or the address in hexadecimal."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index >= 0:
            function = self.functions[index]
            if address < function.address + function.size or address == function.address:
                return function.name
        return f"{address:#010x}"

    def describe_address(self, address: int) -> str:
        name = self.name_at(address)
        return name if name.startswith("0x") else f"{address:#010x} in {name}"

    def address_of(self, name: str) -> int:
        """Return the address of the function ``name``.

        Raises UserError if the function does not exist.
        """
        for function in self.functions:
            if function.name == name:
                return function.address
        known = (function.name for function in self.functions)
        raise UserError(f"the firmware has no function '{name}'{did_you_mean(name, known)}")


@dataclass(frozen=True)
class Firmware:
    """A parsed ELF file. ``entry`` is the address of its first instruction.

    The other ELF files, ``beside``, add their segments and symbols.
    """

    path: Path
    entry: int
    segments: tuple[Segment, ...]
    symbols: Symbols
    beside: tuple[Path, ...] = ()

    @cached_property
    def code(self) -> tuple[int, bytes]:
        """The first executable address, and the bytes from this address to the last executable
        byte."""
        parts = [segment for segment in self.segments if segment.executable]
        return min(part.address for part in parts), bytes(join_segments(parts))


def read_firmware(path: Path, *beside: Path) -> Firmware:
    """Return the firmware of an ELF file, with the segments and symbols of the other ELF files.

    Raises UserError if a file cannot be read or is not an ELF file.
    """
    firmware, *others = map(_read_file, (path, *beside))
    segments, functions = firmware.segments, firmware.symbols.functions
    for other in others:
        segments, functions = segments + other.segments, functions + other.symbols.functions
    symbols = Symbols(tuple(sorted(functions)))
    return Firmware(path, firmware.entry, segments, symbols, beside)


def _read_file(path: Path) -> Firmware:
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            return Firmware(path, int(elf["e_entry"]), list_segments(elf), _read_symbols(elf))
    except OSError as error:
        raise UserError(
            f"{path}: cannot read the firmware: {error.strerror}; check the path and its "
            "permissions"
        ) from error
    except ELFError as error:
        raise UserError(f"{path}: not an ELF file: {error}; build it again") from error


def _read_symbols(elf: ELFFile) -> Symbols:
    thumb_bit = 1 if elf["e_machine"] == "EM_ARM" else 0
    functions = [
        FunctionSymbol(symbol.value & ~thumb_bit, symbol.size, symbol.name)
        for symbol in read_symbols(elf)
        if symbol.kind == FUNCTION and symbol.section != UNDEFINED
    ]
    return Symbols(tuple(sorted(functions)))
