"""Writes UF2 files, which a chip's USB boot loader stores.

Source of the format: https://github.com/microsoft/uf2. The RP2040's boot ROM requires complete
pages of 256 bytes (RP2040 Datasheet, UF2 Format Details). A file must contain all pages of each
sector of 4 KiB, except the pages after the file's last page (erratum RP2040-E14).
"""

from __future__ import annotations

import struct
from pathlib import Path

from firmwright.toolchain.flash_images import read_segments

PAGE = 256
SECTOR = 16
"""The number of pages in a sector of the flash."""
BLOCK = struct.Struct("<8I476sI")
FIRST_MAGIC, SECOND_MAGIC, LAST_MAGIC = 0x0A324655, 0x9E5D5157, 0x0AB16F30
HAS_FAMILY = 0x00002000


def write_uf2(elf: Path, output: Path, family: int) -> None:
    """Write the stored bytes of the ELF as blocks of one page.

    Zeros fill the gaps in a page, and the missing pages of a sector before the file's last page.
    """
    pages: dict[int, bytearray] = {}
    for segment in read_segments(elf):
        for offset, byte in enumerate(segment.content):
            number, start = divmod(segment.address + offset, PAGE)
            pages.setdefault(number, bytearray(PAGE))[start] = byte
    end = max(pages) + 1
    for first in {number - number % SECTOR for number in pages}:
        for number in range(first, min(first + SECTOR, end)):
            pages.setdefault(number, bytearray(PAGE))
    blocks = (
        BLOCK.pack(
            *(FIRST_MAGIC, SECOND_MAGIC, HAS_FAMILY, number * PAGE, PAGE, index, len(pages)),
            *(family, bytes(page), LAST_MAGIC),
        )
        for index, (number, page) in enumerate(sorted(pages.items()))
    )
    output.write_bytes(b"".join(blocks))
