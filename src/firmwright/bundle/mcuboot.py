"""Reads and signs images for the boot loader MCUboot: a header, the firmware, and entries.

An entry has a type, a length and data. All numbers are little-endian. Source: the format at
https://docs.mcuboot.com/design.
"""

from __future__ import annotations

import hashlib
import io
import struct
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.bundle import Bundle
from firmwright.bundle.signing import load_private_key, read_private_key
from firmwright.errors import UserError, first_line
from firmwright.report.inspection import McubootEntry, McubootImage

MAGIC = bytes.fromhex("3db8f396")
HEADER = struct.Struct("<4sIHHIIBBHII")
AREA = struct.Struct("<HH")
ENTRY = struct.Struct("<HH")
PROTECTED, OPEN = 0x6908, 0x6907
"""The marks of the two areas of entries. The image's digest covers only the first area."""

KINDS = {
    0x01: "digest of the key",
    0x02: "public key",
    0x10: "SHA-256",
    0x11: "SHA-384",
    0x12: "SHA-512",
    0x20: "signature, RSA-2048",
    0x22: "signature, ECDSA",
    0x23: "signature, RSA-3072",
    0x24: "signature, Ed25519",
    0x30: "encrypted key, RSA",
    0x31: "encrypted key, AES",
    0x32: "encrypted key, EC P-256",
    0x33: "encrypted key, X25519",
    0x40: "dependency",
    0x50: "security counter",
    0x60: "boot record",
}
DIGESTS = {0x10: hashlib.sha256, 0x11: hashlib.sha384, 0x12: hashlib.sha512}


def read_mcuboot_image(content: bytes, name: str) -> McubootImage:
    """Return the header of an image, and whether the image's digest matches.

    Signatures are not checked. Raises BrokenBundleError if the image is truncated or damaged.
    """
    try:
        return read_parts(content)
    except (struct.error, ValueError) as error:
        raise BrokenBundleError(
            f"{name}: a damaged image for MCUboot: {error}; sign it again"
        ) from None


def read_parts(content: bytes) -> McubootImage:
    """Return the parts of an image.

    Raises struct.error or ValueError if the parts contradict each other.
    """
    _, load, header, protected, size, flags, major, minor, revision, build, _ = HEADER.unpack_from(
        content
    )
    end = header + size
    if header < HEADER.size or end > len(content):
        raise ValueError(f"it has {len(content):,} bytes, but its header states {end:,}")
    entries = [*read_area(content, end, PROTECTED, protected)] if protected else []
    entries += read_area(content, end + protected, OPEN, None)
    covered = content[: end + protected]
    wanted = [(DIGESTS[kind], data) for kind, data in entries if kind in DIGESTS]
    return McubootImage(
        version=f"{major}.{minor}.{revision}+{build}",
        load_address=load,
        flags=flags,
        header_bytes=header,
        firmware_bytes=size,
        firmware_sha256=hashlib.sha256(content[header:end]).hexdigest(),
        digest_matches=bool(wanted)
        and all(make(covered).digest() == data for make, data in wanted),
        entries=tuple(
            McubootEntry(KINDS.get(kind, f"type {kind:#x}"), len(data), data.hex())
            for kind, data in entries
        ),
    )


def read_area(
    content: bytes, start: int, mark: int, size: int | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the data of each entry in an area. ``size`` is the size in the header."""
    stored_mark, total = AREA.unpack_from(content, start)
    if stored_mark != mark or size not in (None, total) or start + total > len(content):
        raise ValueError(f"no area of entries at byte {start:,}")
    offset, end = start + AREA.size, start + total
    while offset < end:
        kind, length = ENTRY.unpack_from(content, offset)
        offset += ENTRY.size + length
        if offset > end:
            raise ValueError(f"an entry of type {kind:#x} ends after its area")
        yield kind, content[offset - length : offset]


FIRMWARE = "firmware.bin"
NO_IMGTOOL = "images for MCUboot need imgtool: python -m pip install 'firmwright[mcuboot]'"


@dataclass(frozen=True)
class ImageLayout:
    """The boot loader's requirements: ``slot`` and ``header`` in bytes, ``align`` of its flash."""

    version: str
    slot: int
    header: int
    align: int


def make_mcuboot_image(bundle: Bundle, key: Path | None, layout: ImageLayout) -> bytes:
    """Return the image. The bytes depend only on the bundle, the key and the layout.

    The security counter is the ``counter`` of the bundle's recipe, if the recipe has a counter.
    Raises UserError if the bundle has no bare-metal firmware, the key is not an ed25519 key, the
    version is wrong, or the slot is too small.
    """
    firmware = bundle.files.get(FIRMWARE)
    if firmware is None:
        raise UserError(
            f"{bundle.path}: has no firmware for a boot loader; build it for a bare-metal platform"
        )
    private = load_private_key(read_private_key(key))
    try:
        import click
        from imgtool.image import Image
        from imgtool.keys import Ed25519
        from imgtool.version import decode_version
    except ImportError:
        raise UserError(NO_IMGTOOL) from None
    try:
        version = decode_version(layout.version)
    except ValueError:
        raise UserError(
            f"version {layout.version}: not a version of MCUboot; expected "
            "major.minor.revision or major.minor.revision+build, such as 1.2.3+4"
        ) from None
    image: Any = Image(
        version=version, header_size=layout.header, pad_header=True, slot_size=layout.slot,
        align=layout.align, security_counter=read_counter(bundle),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, FIRMWARE), Path(folder, "signed.bin")
        source.write_bytes(firmware)
        try:
            with redirect_stdout(io.StringIO()):  # hides the steps that imgtool prints
                image.load(str(source))
                image.create(Ed25519(private), "hash", None)
                image.save(str(target))
        except click.UsageError as error:
            raise UserError(f"{bundle.path}: {first_line(error)}") from None
        return target.read_bytes()


def read_counter(bundle: Bundle) -> int | None:
    counter: int | None = bundle.manifest["recipe"]["resolved"].get("counter")
    return counter
