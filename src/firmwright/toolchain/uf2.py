"""Writes UF2 files, which a chip's USB boot loader stores.

Source of the format: https://github.com/microsoft/uf2. Pages of 256 bytes, each written whole, are
the rule of the RP2040's boot ROM (RP2040 Datasheet, 2.8.5.1.2).
"""

from __future__ import annotations

import struct
from pathlib import Path

from firmwright.toolchain.image import read_segments

PAGE = 256
BLOCK = struct.Struct("<8I476sI")
FIRST_MAGIC, SECOND_MAGIC, LAST_MAGIC = 0x0A324655, 0x9E5D5157, 0x0AB16F30
HAS_FAMILY = 0x00002000


def write_uf2(elf: Path, output: Path, family: int) -> None:
    """Write the stored bytes of the ELF as blocks of one page; gaps in a page are filled with 0."""
    pages: dict[int, bytearray] = {}
    for segment in read_segments(elf):
        for offset, byte in enumerate(segment.content):
            number, place = divmod(segment.address + offset, PAGE)
            pages.setdefault(number, bytearray(PAGE))[place] = byte
    blocks = (
        BLOCK.pack(
            *(FIRST_MAGIC, SECOND_MAGIC, HAS_FAMILY, number * PAGE, PAGE, index, len(pages)),
            *(family, bytes(page), LAST_MAGIC),
        )
        for index, (number, page) in enumerate(sorted(pages.items()))
    )
    output.write_bytes(b"".join(blocks))
