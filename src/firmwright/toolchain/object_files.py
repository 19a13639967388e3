"""Reads the symbols that object files and archives define and need from their ELF tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from firmwright.errors import UserError, did_you_mean
from firmwright.toolchain.elf_symbols import (
    FUNCTION,
    GLOBAL,
    LOCAL,
    SECTION,
    UNDEFINED,
    ElfSymbol,
    read_symbols,
)

ARCHIVE_MAGIC = b"!<arch>\n"
MEMBER_HEADER_BYTES = 60
"""The bytes of a member's header: name (16), times and owner, size (10, at offset 48), end."""


@dataclass(frozen=True)
class ObjectFile:
    """An object file, such as ``libfast.a(conv.o)``, its machine, and its global symbols."""

    name: str
    machine: str
    defined: frozenset[str]
    undefined: frozenset[str]


@dataclass(frozen=True)
class MissingSymbol:
    """A symbol that one object file needs and that no file defines."""

    needed_by: ObjectFile
    symbol: str
    hint: str

    def __str__(self) -> str:
        return f"{self.needed_by.name} needs '{self.symbol}', which no file defines{self.hint}"


def read_object(path: Path) -> ObjectFile:
    """Return one object file. Raises UserError if the file is not ELF."""
    return parse_object(path.name, path.read_bytes())


def read_archive(path: Path) -> list[ObjectFile]:
    """Return every member of an archive.

    Raises UserError if the file is not an archive, or if the archive has no object files.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not content.startswith(ARCHIVE_MAGIC):
        raise UserError(f"{path.name} is not an archive of object files; expected a .a of `ar`")
    objects = [parse_object(f"{path.name}({name})", data) for name, data in read_members(content)]
    if not objects:
        raise UserError(f"{path.name} is an archive without object files; build it again")
    return objects


def read_members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each object file of an archive.

    GNU stores long names in a member ``//``, and BSD stores them before the content. Another name
    that begins with a slash or ``__.SYMDEF`` is the name of an index. Source: the System V ABI, and
    the manual pages of GNU ar and BSD ar on the format.
    """
    names = b""
    position = len(ARCHIVE_MAGIC)
    while position + MEMBER_HEADER_BYTES <= len(content):
        header = content[position : position + MEMBER_HEADER_BYTES]
        size = int(header[48:58])
        position += MEMBER_HEADER_BYTES
        data = content[position : position + size]
        position += size + size % 2
        name = header[:16].decode("latin-1").rstrip()
        if name == "//":
            names = data
        elif name.startswith("#1/"):
            length = int(name[3:])
            name, data = data[:length].rstrip(b"\0").decode("latin-1"), data[length:]
        elif name[:1] == "/" and name[1:].isdigit():
            name = names[int(name[1:]) :].split(b"\n")[0].decode("latin-1")
        if not name.startswith(("/", "__.SYMDEF")):
            yield name.rstrip("/"), data


def parse_object(name: str, content: bytes) -> ObjectFile:
    try:
        image = ELFFile(io.BytesIO(content))
        symbols = read_symbols(image)
    except ELFError:
        raise UserError(f"{name} is not an ELF object file; compile it for the platform") from None
    order = "little" if image.little_endian else "big"
    machine = f"{image.get_machine_arch().strip('<>')}, {image.elfclass} bits, {order}-endian"
    named = [s for s in symbols if s.name and s.binding != LOCAL]
    undefined = {s.name for s in named if s.section == UNDEFINED and s.binding == GLOBAL}
    defined = {s.name for s in named if s.section != UNDEFINED}
    return ObjectFile(name, machine, frozenset(defined), frozenset(undefined))


def select_linked_objects(
    objects: Sequence[ObjectFile], archived: Sequence[ObjectFile]
) -> list[ObjectFile]:
    """Return the objects and the archive members that a linker adds for missing symbols."""
    taken = list(objects)
    waiting = list(archived)
    while True:
        needed = {s for o in taken for s in o.undefined} - {s for o in taken for s in o.defined}
        wanted = [member for member in waiting if member.defined & needed]
        if not wanted:
            return taken
        taken += wanted
        waiting = [member for member in waiting if member not in wanted]


def find_missing_symbols(files: Iterable[ObjectFile]) -> list[MissingSymbol]:
    """Return the undefined symbols in the order of the files, sorted per file."""
    files = list(files)
    defined = {symbol for file in files for symbol in file.defined}
    return [
        MissingSymbol(file, symbol, suggest_symbol(symbol, defined))
        for file in files
        for symbol in sorted(file.undefined - defined)
    ]


def suggest_symbol(symbol: str, defined: Iterable[str]) -> str:
    hint = did_you_mean(symbol, defined)
    return hint if hint.startswith("; did you mean") else ""


CALLS = {
    "ARM": frozenset({10, 28, 29, 30, 42, 51, 102}),
    "RISC-V": frozenset({16, 17, 18, 19, 44, 45}),
}
"""Relocations of calls and jumps, and of Arm's tables of exceptions.

All other relocations need an address. Sources: ELF for the Arm Architecture (IHI 0044), 4.6.1;
RISC-V ELF psABI 1.0, 8.4.
"""

ABSOLUTE = 2
"""R_ARM_ABS32, whose addend is the stored word. The addend of instructions is not read."""


def find_pointed_functions(files: Iterable[Path]) -> frozenset[str]:
    """Return the symbols whose addresses the code or data of objects and archives use.

    Pointers can refer only to these functions.
    """
    contents = [path.read_bytes() for path in files]
    images = [
        data
        for content in contents
        for _, data in (read_members(content) if content[:8] == ARCHIVE_MAGIC else [("", content)])
    ]
    return frozenset(name for image in images for name in read_pointed(image))


def read_pointed(content: bytes) -> Iterator[str]:
    """Yield the symbols whose addresses an object file uses.

    An address in a section counts if a function begins at the address. Other addresses are labels
    of a jump table.
    """
    image = ELFFile(io.BytesIO(content))
    machine, symbols = image.get_machine_arch(), read_symbols(image)
    functions: dict[int, list[ElfSymbol]] = {}
    for symbol in symbols:
        if symbol.kind == FUNCTION:
            functions.setdefault(symbol.section, []).append(symbol)
    for section in image.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        target = image.get_section(section["sh_info"])
        if not target["sh_flags"] & SH_FLAGS.SHF_ALLOC or target["sh_type"] == "SHT_NOBITS":
            continue
        data = target.data()
        for row in section.iter_relocations():
            symbol = symbols[row["r_info_sym"]]
            if row["r_info_type"] in CALLS.get(machine, ()):
                continue
            if symbol.kind != SECTION:
                yield symbol.name
                continue
            start = row["r_offset"]
            stored = int.from_bytes(data[start : start + 4], "little")
            offset = row["r_addend"] if row.is_RELA() else stored
            known = row.is_RELA() or row["r_info_type"] == ABSOLUTE
            beginning = {offset, offset | 1}  # Arm marks Thumb code with an odd address
            here = functions.get(symbol.section, [])
            yield from (s.name for s in here if not known or s.value in beginning)
