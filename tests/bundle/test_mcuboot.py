"""An image for MCUboot, written here according to its documentation, is read."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.inspect import inspect_file
from firmwright.ir.records import to_plain
from firmwright.report.inspection import format_inspection

FIRMWARE = bytes(range(256)) * 4
SIGNATURE = bytes(64)


def make_entry(kind: int, data: bytes) -> bytes:
    return struct.pack("<BBH", kind, 0, len(data)) + data


def make_area(mark: int, *entries: bytes) -> bytes:
    return struct.pack("<HH", mark, 4 + sum(map(len, entries))) + b"".join(entries)


def make_image() -> bytes:
    protected = make_area(0x6908, make_entry(0x50, struct.pack("<I", 7)))
    version = struct.pack("<BBHI", 1, 2, 3, 4)
    header = struct.pack("<IIHHII", 0x96F3B83D, 0x20000, 64, len(protected), len(FIRMWARE), 0x20)
    signed = (header + version).ljust(64, b"\0") + FIRMWARE + protected
    digest = make_entry(0x10, hashlib.sha256(signed).digest())
    return signed + make_area(0x6907, digest, make_entry(0x24, SIGNATURE), make_entry(0xA0, b"own"))


def test_it_tells_what_an_image_says(tmp_path: Path) -> None:
    path = tmp_path / "signed.bin"
    path.write_bytes(make_image() + b"\xff" * 100)  # the rest of a slot is filled
    found = inspect_file(path)
    image = found.mcuboot
    assert image is not None
    assert (found.kind, image.version, image.load_address) == ("mcuboot", "1.2.3+4", 0x20000)
    assert image.firmware_sha256 == hashlib.sha256(FIRMWARE).hexdigest()
    assert image.digest_matches
    assert [(e.kind, e.content) for e in image.entries if e.kind != "SHA-256"] == [
        ("security counter", "07000000"),
        ("signature, Ed25519", SIGNATURE.hex()),
        ("type 0xa0", b"own".hex()),
    ]
    text = format_inspection(found)
    assert "for MCUboot, version 1.2.3+4" in text
    assert "security counter" in text
    json.dumps(to_plain(found))


@pytest.mark.parametrize("place", [70, 64 + len(FIRMWARE) + 9], ids=["firmware", "counter"])
def test_a_changed_image_has_another_digest(place: int, tmp_path: Path) -> None:
    content = bytearray(make_image())
    content[place] ^= 1
    (tmp_path / "signed.bin").write_bytes(content)
    image = inspect_file(tmp_path / "signed.bin").mcuboot
    assert image is not None
    assert not image.digest_matches


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c[:20],
        lambda c: c[:500],
        lambda c: c[: 64 + len(FIRMWARE) + 14],
        lambda c: c[:-2],
        lambda c: c[:8] + b"\0\0" + c[10:],
        lambda c: c[:12] + b"\xff" * 4 + c[16:],
    ],
)
def test_a_damaged_image_is_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "signed.bin").write_bytes(damage(make_image()))
    with pytest.raises(BrokenBundleError, match=r"signed\.bin: a damaged image for MCUboot"):
        inspect_file(tmp_path / "signed.bin")
