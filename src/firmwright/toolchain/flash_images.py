"""Writes the images that a programmer flashes from a linked ELF, and measures the memory use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile

from firmwright.errors import UserError
from firmwright.toolchain.elf_symbols import FUNCTION, OBJECT, RESERVED, read_symbols
from firmwright.toolchain.platforms import Memory, Platform
from firmwright.toolchain.stack_depth import StackDepth

# A flat image of two distant memories would be mostly padding.
_LARGEST_IMAGE = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class FirmwareSize:
    """The bytes of a firmware in each memory.

    ``flash_bytes`` counts stored bytes: code, constants, and the initial values of variables.
    ``ram_bytes`` counts bytes that are writable at run time: variables, cleared memory, the arena,
    and the stack. The stack is a section, or the platform's stack size if the linker script does
    not reserve a section. A section with initial values counts in RAM and in flash. Padding between
    sections is not counted. ``sections`` contains the size of every section that occupies memory,
    in order of address. ``other_bytes`` contains the bytes in other memories. These bytes never
    count in RAM, and count in flash only if the start-up code copies them from flash. ``stacks``
    maps each network's prefix to the stack that the run function needs. The mapping is empty if an
    operating system provides the stack.
    """

    flash_bytes: int
    ram_bytes: int
    sections: Mapping[str, int]
    other_bytes: Mapping[str, int] = field(default_factory=dict)
    stacks: Mapping[str, StackDepth] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A section of an ELF image with an address.

    The image contains the bytes if ``stored`` is true. The program may write the bytes if
    ``writable`` is true.
    """

    name: str
    address: int
    bytes: int
    stored: bool
    writable: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or an object of an ELF image, its section, and its size."""

    name: str
    section: str
    bytes: int


@dataclass(frozen=True)
class Segment:
    """The bytes to store at a load address."""

    address: int
    content: bytes
    executable: bool = False


def measure_firmware(elf: Path, platform: Platform) -> FirmwareSize:
    """Return the number of bytes that the firmware needs in each memory of the platform."""
    with elf.open("rb") as stream:
        sections = read_sections(ELFFile(stream))
    if platform.stack and not any("stack" in section.name for section in sections):
        sections += (Section(".stack", 0, platform.stack, stored=False, writable=True),)
    further = {section.name: find_further(section, platform) for section in sections}
    other = Counter[str]()
    for section in sections:
        if name := further[section.name]:
            other[name] += section.bytes
    return FirmwareSize(
        sum(section.bytes for section in sections if is_in_flash(section, platform)),
        sum(section.bytes for section in sections if is_in_ram(section, platform)),
        {section.name: section.bytes for section in sections},
        dict(sorted(other.items())),
    )


def is_in_flash(section: Section, platform: Platform) -> bool:
    """Return whether the flash contains the section or its initial values."""
    further = find_further(section, platform)
    return section.stored and not (further and platform.memories[further].read_only)


def is_in_ram(section: Section, platform: Platform) -> bool:
    """Return whether the section is in RAM.

    Writable sections are in RAM. On a platform without flash, all sections are in RAM, except the
    sections in further memories.
    """
    if find_further(section, platform):
        return False
    return section.writable or platform.all_in_ram


def find_further(section: Section, platform: Platform) -> str | None:
    """Return the name of a section's memory, or None for flash and RAM."""
    for name, memory in platform.memories.items():
        inside = memory.origin <= section.address < memory.origin + memory.size
        if inside and name not in ("flash", "ram"):
            return name
    return None


def read_sections(image: ELFFile) -> tuple[Section, ...]:
    """Return the sections that occupy memory, in order of address."""
    sections = []
    for section in image.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]:
            stored = section["sh_type"] != "SHT_NOBITS"
            # LLD does not mark a reserved section such as the stack as writable.
            writable = bool(section["sh_flags"] & SH_FLAGS.SHF_WRITE) or not stored
            address, size = int(section["sh_addr"]), int(section["sh_size"])
            sections.append(Section(section.name, address, size, stored, writable))
    return tuple(sorted(sections, key=lambda section: section.address))


def list_symbols(elf: Path) -> list[Symbol]:
    """Return the functions and objects of an ELF image, the largest first.

    The list is empty for a stripped image.
    """
    symbols = []
    with elf.open("rb") as stream:
        file = ELFFile(stream)
        for symbol in read_symbols(file):
            if symbol.kind in (FUNCTION, OBJECT) and 0 < symbol.section < RESERVED:
                section = file.get_section(symbol.section).name
                symbols.append(Symbol(symbol.name, section, symbol.size))
    return sorted(symbols, key=lambda s: (-s.bytes, s.name, s.section))


def read_segments(elf: Path) -> tuple[Segment, ...]:
    with elf.open("rb") as stream:
        return list_segments(ELFFile(stream))


def list_segments(image: ELFFile) -> tuple[Segment, ...]:
    """Return the stored bytes of an ELF in the order of load addresses (``p_paddr``)."""
    segments = [
        Segment(int(s["p_paddr"]), s.data(), bool(s["p_flags"] & P_FLAGS.PF_X))
        for s in image.iter_segments("PT_LOAD")
        if s["p_filesz"]
    ]
    return tuple(sorted(segments, key=lambda segment: segment.address))


def join_segments(segments: Sequence[Segment]) -> bytearray:
    """Return the bytes from the lowest load address on, with zeros in gaps."""
    start = min((segment.address for segment in segments), default=0)
    end = max((segment.address + len(segment.content) for segment in segments), default=0)
    image = bytearray(end - start)
    for segment in segments:
        offset = segment.address - start
        image[offset : offset + len(segment.content)] = segment.content
    return image


HEX_BLOCK = 2**16
HEX_LINE = 16
"""The number of bytes in a data record."""

DATA, END, BLOCK, ENTRY = 0, 1, 4, 5
"""Types of records. Source: Intel, Hexadecimal Object File Format Specification, revision A."""


def write_images(elf: Path, output: Path, platform: Platform) -> None:
    """Write the flat image, and one image for each other memory that stores bytes.

    The file names of the other images contain the memory's name before the suffix.
    """
    segments = [*read_segments(elf)]
    for name, memory in platform.memories.items():
        if memory.read_only and name != "flash":
            inside = [s for s in segments if is_inside(s, memory)]
            segments = [s for s in segments if not is_inside(s, memory)]
            if inside:
                write_bin(elf, output.with_suffix(f".{name}{output.suffix}"), inside)
    write_bin(elf, output, segments)


def is_inside(segment: Segment, memory: Memory) -> bool:
    return memory.origin <= segment.address < memory.origin + memory.size


def write_bin(elf: Path, output: Path, segments: Sequence[Segment]) -> None:
    """Write a flat image that begins at the lowest load address and has zeros in gaps.

    Raises UserError if the stored bytes are so distant that most of the image would be padding.
    """
    start = min((segment.address for segment in segments), default=0)
    end = max((segment.address + len(segment.content) for segment in segments), default=0)
    if end - start > _LARGEST_IMAGE:
        raise UserError(
            f"{elf.name}: its stored bytes reach from {start:#x} to {end:#x}, too far apart for a "
            "flat image; in the linker script, state a load address in flash for sections in RAM"
        )
    output.write_bytes(join_segments(segments))


def write_hex(elf: Path, output: Path) -> None:
    """Write the stored bytes and the entry point as Intel HEX, whose lines end with line feeds."""
    with elf.open("rb") as stream:
        entry = int(ELFFile(stream)["e_entry"])
    with output.open("wb") as lines:
        lines.write(format_record(ENTRY, 0, entry.to_bytes(4, "big")))
        lines.writelines(format_segments(read_segments(elf)))
        lines.write(format_record(END, 0, b""))


def format_segments(segments: Iterable[Segment]) -> Iterator[bytes]:
    block = 0
    for part in split_blocks(segments):
        number, offset = divmod(part.address, HEX_BLOCK)
        if number != block:
            yield format_record(BLOCK, 0, number.to_bytes(2, "big"))
            block = number
        for start in range(0, len(part.content), HEX_LINE):
            line = part.content[start : start + HEX_LINE]
            yield format_record(DATA, offset + start, line)


def format_record(kind: int, offset: int, content: bytes) -> bytes:
    """Return a line of Intel HEX: length, offset in the block, type, content, and checksum."""
    record = bytes((len(content), offset >> 8, offset & 0xFF, kind)) + content
    return b":%s%02X\n" % (record.hex().upper().encode(), -sum(record) & 0xFF)


def split_blocks(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the parts of segments per block of 64 KiB, because records cannot cross blocks."""
    for segment in segments:
        start, end = segment.address, segment.address + len(segment.content)
        while start < end:
            stop = min(end, (start // HEX_BLOCK + 1) * HEX_BLOCK)
            yield Segment(start, segment.content[start - segment.address : stop - segment.address])
            start = stop


def write_map(elf: Path, output: Path) -> None:
    """Write a map of the sections in memory for a linker that cannot write a map.

    The map does not list symbols. Only the linker of `zig cc` needs this map. This linker strips
    the symbols together with the debugging information of the start-up code.
    """
    lines = [f"{'address':>16}  {'bytes':>8}  section"]
    with elf.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                lines.append(f"{section['sh_addr']:16x}  {section['sh_size']:8d}  {section.name}")
    output.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
