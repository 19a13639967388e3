"""A map of the linked image, for linkers that write none of their own."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile


def write_map(elf: Path, output: Path) -> None:
    """Write every section that takes memory, in order of address.

    Symbols are not listed: the one linker that needs this, that of `zig cc`, strips them together
    with the debugging information of its own start-up code.
    """
    lines = [f"{'address':>16}  {'bytes':>8}  section"]
    with elf.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                lines.append(f"{section['sh_addr']:16x}  {section['sh_size']:8d}  {section.name}")
    output.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
