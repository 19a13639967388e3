"""From a linked ELF to the images that a programmer flashes, and to the memory it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from intelhex import IntelHex

from firmwright.errors import UserError

# A flat image over two memories far apart would be mostly padding.
_LARGEST_IMAGE = 256 * 1024**2


@dataclass(frozen=True)
class FirmwareSize:
    """Bytes that a firmware takes in each memory, by its sections.

    ``flash_bytes`` counts what is stored: code, constants, and the initial values of variables.
    ``ram_bytes`` counts what is writable at run time: variables, cleared memory, the arena, and
    the stack where the linker script reserves one in a section. A section with initial values
    counts in both. Padding between sections is not counted. ``sections`` gives the size of every
    section that takes memory, in order of address.
    """

    flash_bytes: int
    ram_bytes: int
    sections: Mapping[str, int]


@dataclass(frozen=True)
class Segment:
    """Bytes to be stored at a load address."""

    address: int
    content: bytes


def measure_firmware(elf: Path, all_in_ram: bool = False) -> FirmwareSize:
    """Return what the firmware needs of flash and RAM.

    With ``all_in_ram`` what is stored stays in RAM, and counts there whether it is writable or not.
    """
    flash = ram = 0
    sections = {}
    with elf.open("rb") as stream:
        allocated = [
            section
            for section in ELFFile(stream).iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]
        ]
        for section in sorted(allocated, key=lambda item: int(item["sh_addr"])):
            size = int(section["sh_size"])
            sections[section.name] = size
            stored = section["sh_type"] != "SHT_NOBITS"
            # LLD does not mark a reserved section such as the stack as writable.
            writable = all_in_ram or section["sh_flags"] & SH_FLAGS.SHF_WRITE or not stored
            flash += size if stored else 0
            ram += size if writable else 0
    return FirmwareSize(flash, ram, sections)


def read_segments(elf: Path) -> tuple[Segment, ...]:
    """Return what the ELF stores, by load address (the program headers' ``p_paddr``)."""
    with elf.open("rb") as stream:
        segments = [
            Segment(int(segment["p_paddr"]), segment.data())
            for segment in ELFFile(stream).iter_segments("PT_LOAD")
            if segment["p_filesz"]
        ]
    return tuple(sorted(segments, key=lambda segment: segment.address))


def write_bin(elf: Path, output: Path) -> None:
    """Write the flat image from the lowest load address on; gaps are filled with 0.

    Raises UserError when the stored bytes lie so far apart that the image would be padding.
    """
    segments = read_segments(elf)
    start = min((segment.address for segment in segments), default=0)
    end = max((segment.address + len(segment.content) for segment in segments), default=0)
    if end - start > _LARGEST_IMAGE:
        raise UserError(
            f"{elf.name}: its stored bytes reach from {start:#x} to {end:#x}, too far apart for a "
            "flat image; does the linker script give a section in RAM no load address in flash?"
        )
    image = bytearray(end - start)
    for segment in segments:
        offset = segment.address - start
        image[offset : offset + len(segment.content)] = segment.content
    output.write_bytes(image)


def write_hex(elf: Path, output: Path) -> None:
    """Write the stored bytes and the entry point as Intel HEX, with line feeds on every system."""
    image = IntelHex()
    for segment in read_segments(elf):
        image.frombytes(segment.content, offset=segment.address)
    with elf.open("rb") as stream:
        image.start_addr = {"EIP": int(ELFFile(stream)["e_entry"])}
    with output.open("w", encoding="ascii", newline="\n") as text:
        image.write_hex_file(text)


def write_map(elf: Path, output: Path) -> None:
    """Write a map for linkers that write none: every section that takes memory, by address.

    Symbols are not listed: the one linker that needs this, that of `zig cc`, strips them together
    with the debugging information of its own start-up code.
    """
    lines = [f"{'address':>16}  {'bytes':>8}  section"]
    with elf.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                lines.append(f"{section['sh_addr']:16x}  {section['sh_size']:8d}  {section.name}")
    output.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
