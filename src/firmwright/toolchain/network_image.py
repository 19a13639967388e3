"""A network as a separate image: its header, as ``templates/slot/slot.h.j2`` declares it.

The linker knows neither the image's length nor its checksum: both are written into it afterwards.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from firmwright.toolchain.image import read_segments

MAGIC = b"FWNI"
FORMAT = 1
HEADER = struct.Struct("<4sIIIIII3I32s44s104s")
LENGTHS = struct.Struct("<II")
"""The image's size, the checksum of the bytes after the header, and the offsets of both in it."""
LENGTHS_OFFSET = 8
CHECKED = 16
"""From here on to the end, bytes are part of the checksum."""


@dataclass(frozen=True, slots=True)
class NetworkImage:
    """The header of a network's image; ``workspace_bytes`` is what it works in.

    ``interface`` is the digest of what a firmware has to know of the network.
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
    """Write a linked network's image: the stored bytes, with their number and their checksum.

    The ELF gets both too.
    """
    segments = read_segments(elf)
    start = segments[0].address
    content = bytearray(max(s.address + len(s.content) for s in segments) - start)
    for segment in segments:
        offset = segment.address - start
        content[offset : offset + len(segment.content)] = segment.content
    linked = bytes(content[: HEADER.size])
    LENGTHS.pack_into(content, LENGTHS_OFFSET, len(content), zlib.crc32(content[CHECKED:]))
    image.write_bytes(content)
    elf.write_bytes(elf.read_bytes().replace(linked, bytes(content[: HEADER.size]), 1))


def read_image(content: bytes) -> NetworkImage:
    """Return the header of an image; ValueError or struct.error for a damaged one."""
    fields = HEADER.unpack_from(content)
    _, form, length, checksum, address, workspace, counter, *version = fields[:10]
    interface, build_id, name = fields[10:]
    if form != FORMAT:
        raise ValueError(f"its header has the form {form}, not {FORMAT}")
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
