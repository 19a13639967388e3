"""Sample files from outside with false contents are rejected with a message."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from firmwright.data.arrays import load_npy, load_npz
from firmwright.data.pictures import open_picture
from firmwright.errors import UserError


def test_a_picture_that_would_start_a_program_is_refused() -> None:
    """Pillow passes PostScript to Ghostscript, whatever the name of the file."""
    content = io.BytesIO()
    Image.new("RGB", (4, 4)).save(content, "EPS")
    with pytest.raises(UserError, match="not a supported picture; expected one of BMP"):
        open_picture(content.getvalue(), "street.png")


@pytest.mark.parametrize("form", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_common_pictures_are_read(form: str) -> None:
    content = io.BytesIO()
    Image.new("RGB", (4, 3), "white").save(content, form)
    assert open_picture(content.getvalue(), "street").size == (4, 3)


def huge_array(elements: int) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({elements},), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize("elements", [2**40, 10**30])
def test_an_array_that_claims_more_than_memory_is_refused(elements: int, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(huge_array(elements))
    with pytest.raises(UserError, match=r"not an \.npy of a plain array"):
        load_npy(path)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", huge_array(elements))
    with pytest.raises(UserError, match=r"not an \.npz of plain arrays"):
        load_npz(tmp_path / "x.npz", ["x"])


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"not an \.npz of plain arrays"):
        load_npz(path, ["x"])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"text")
    with pytest.raises(UserError, match="'x' is not an array"):
        load_npz(path, ["x"])
    np.savez(path, x=np.arange(3))
    assert load_npz(path, ["x"])["x"].tolist() == [0, 1, 2]


def test_a_header_without_an_end_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': ('<f8', 'fortran_order': False, 'shape': (3,), }\n"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match=r"not an \.npy of a plain array"):
        load_npy(path)


def set_flag(archive: bytes, flag: int) -> bytes:
    """Return a zip of one member with a flag in both of its headers."""
    changed = bytearray(archive)
    changed[6] |= flag
    changed[archive.index(b"PK\x01\x02") + 8] |= flag
    return bytes(changed)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(3))
    path.write_bytes(set_flag(path.read_bytes(), 1))
    with pytest.raises(UserError, match=r"not an \.npz of plain arrays: .*encrypted"):
        load_npz(path, ["x"])


def test_a_damaged_compressed_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.arange(300))
    content = bytearray(path.read_bytes())
    content[100:140] = b"\xff" * 40
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"not an \.npz of plain arrays"):
        load_npz(path, ["x"])
