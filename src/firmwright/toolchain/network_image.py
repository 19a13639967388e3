"""Reads and seals a network's separate image.

``templates/slot/slot.h.j2`` declares the header. The linker cannot compute the image's length and
checksum, so both are written after the link.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from firmwright.toolchain.flash_images import join_segments, read_segments

MAGIC = b"FWNI"
FORMAT = 1
HEADER = struct.Struct("<4sIIIIII3I32s44s104s")
LENGTHS = struct.Struct("<II")
"""The image's size, and the checksum of the bytes from CHECKED on."""
LENGTHS_OFFSET = 8
CHECKED = 16
"""The checksum includes all bytes from this offset on."""


@dataclass(frozen=True, slots=True)
class NetworkImage:
    """The header of a network's image.

    Sizes are in bytes. ``workspace_bytes`` is the size of the memory in which the network computes.
    ``interface`` is the digest of the network's properties that a firmware depends on.
    """

    name: str
    version: str
    counter: int
    build_id: str
    interface: str
    address: int
    bytes: int
    workspace_bytes: int
    checksum_matches: bool


def seal_image(elf: Path, image: Path) -> None:
    """Write the image of a linked network: the stored bytes with the size and checksum.

    The function also writes size and checksum into the ELF.
    """
    content = join_segments(read_segments(elf))
    linked = bytes(content[: HEADER.size])
    LENGTHS.pack_into(content, LENGTHS_OFFSET, len(content), zlib.crc32(content[CHECKED:]))
    image.write_bytes(content)
    elf.write_bytes(elf.read_bytes().replace(linked, bytes(content[: HEADER.size]), 1))


def read_image(content: bytes) -> NetworkImage:
    """Return the header of an image. Raises ValueError or struct.error if the image is damaged."""
    fields = HEADER.unpack_from(content)
    _, form, length, checksum, address, workspace, counter, *version = fields[:10]
    interface, build_id, name = fields[10:]
    if form != FORMAT:
        raise ValueError(f"its header has the form {form}; expected {FORMAT}")
    return NetworkImage(
        name=read_text(name),
        version=".".join(map(str, version)),
        counter=counter,
        build_id=read_text(build_id),
        interface=interface.hex(),
        address=address,
        bytes=length,
        workspace_bytes=workspace,
        checksum_matches=zlib.crc32(content[CHECKED:length]) == checksum
        and CHECKED <= length <= len(content),
    )


def read_text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("ascii")
