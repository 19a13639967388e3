"""Reads the symbol table of an ELF file at once.

With pyelftools, reading a thousand symbols would need more time than running the firmware.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from elftools.common.exceptions import ELFParseError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

OBJECT, FUNCTION, SECTION = 1, 2, 3
"""Kinds of symbols: STT_OBJECT, STT_FUNC, STT_SECTION."""

LOCAL, GLOBAL = 0, 1
"""Bindings: STB_LOCAL, STB_GLOBAL."""

UNDEFINED, RESERVED = 0, 0xFF00
"""Special section numbers: SHN_UNDEF, and SHN_LORESERVE, the first number without a section."""

FORMATS = {32: "IIIBBH", 64: "IBBHQQ"}
"""The formats of Elf32_Sym and Elf64_Sym.

Source of all numbers in this module: System V ABI, chapter 4, symbol table.
"""


class ElfSymbol(NamedTuple):
    """A row of a symbol table. ``section`` is the section's number, and ``size`` is in bytes."""

    name: str
    value: int
    size: int
    kind: int
    binding: int
    section: int


def read_symbols(image: ELFFile) -> list[ElfSymbol]:
    """Return the symbols of ``.symtab`` in the order of the table, or [] for a stripped file.

    Raises ELFParseError if the table is damaged.
    """
    table = image.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return []
    row_format = struct.Struct(("<" if image.little_endian else ">") + FORMATS[image.elfclass])
    rows, names = table.data(), table.stringtable.data()
    if len(rows) % row_format.size or names[-1:] != b"\0":
        raise ELFParseError("its symbol table is damaged")
    symbols = []
    for row in row_format.iter_unpack(rows):
        if image.elfclass == 32:
            start, value, size, info, _, section = row
        else:
            start, info, _, section, value, size = row
        name = names[start : names.find(b"\0", start)].decode("utf-8", "replace")
        symbols.append(ElfSymbol(name, value, size, info & 0xF, info >> 4, section))
    return symbols
