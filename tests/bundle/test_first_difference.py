"""The first difference of two files is described in terms of their format."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest

from firmwright.bundle.archive import write_archive
from firmwright.bundle.first_difference import find_difference, find_first


def pack_arrays(**arrays: object) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def pack_bundle(folder: Path, **files: bytes) -> bytes:
    write_archive(folder / "b.tar.gz", "b", files)
    return (folder / "b.tar.gz").read_bytes()


@pytest.mark.parametrize(
    ("name", "first", "second", "where"),
    [
        ("run.json", b'{"a": [{"b": 1}]}', b'{"a": [{"b": 2}]}', "a[0].b: 1 and 2"),
        ("run.json", b'{"a": 1}', b'{ "a": 1}', "line 1: '{\"a\": 1}' and '{ \"a\": 1}'"),
        ("run.json", b"{", b"[", "line 1: '{' and '['"),
        ("main.c", b"int a;\nint b;\n", b"int a;\nint c;\n", "line 2: 'int b;' and 'int c;'"),
        ("main.c", b"int a;\n", b"int a;", "byte 6 (7 and 6 bytes)"),
        ("a.bin", b"\xff\0\1", b"\xff\0\2", "byte 2 (3 and 3 bytes)"),
        ("a.npz", pack_arrays(x=[1], y=[2]), pack_arrays(x=[1], y=[3]), "array y"),
        ("a.npz", pack_arrays(x=[1]), pack_arrays(y=[1]), "array x is in only one of them"),
        ("a.npz", pack_arrays(x=[1]), pack_arrays(x=[1]) + b"", ""),
        ("a.elf", b"\x7fELF\0", b"\x7fELF\1", "line 1: '\\x7fELF\\x00' and '\\x7fELF\\x01'"),
    ],
)
def test_the_first_difference(name: str, first: bytes, second: bytes, where: str) -> None:
    assert find_difference(first, second, name) == where


def test_files_are_compared_in_order_of_name(tmp_path: Path) -> None:
    first = pack_bundle(tmp_path, a=b"same", b=b"one", c=b"one")
    second = pack_bundle(tmp_path, a=b"same", b=b"two", c=b"two")
    assert find_difference(first, second, "x.tar.gz") == "in it b, line 1: 'one' and 'two'"
    assert find_first({"a": b""}, {"a": b"", "b": b""}) == "b is in only one of them"


def test_the_section_of_an_image_is_named() -> None:
    """A small ELF of three sections: an empty one, .text and the names."""

    def make(text: bytes) -> bytes:
        names = b"\0.text\0.names\0"
        header = struct.pack(
            "<4s12sHHIIIIIHHHHHH", b"\x7fELF", b"\1\1\1" + bytes(9), 2, 243, 1, 0, 0,
            52 + len(text) + len(names), 0, 52, 0, 0, 40, 3, 2,
        )  # fmt: skip
        sections = bytes(40)
        sections += struct.pack("<10I", 1, 1, 6, 0, 52, len(text), 0, 0, 1, 0)
        sections += struct.pack("<10I", 7, 3, 0, 0, 52 + len(text), len(names), 0, 0, 1, 0)
        return header + text + names + sections

    assert find_difference(make(b"abcd"), make(b"abXd"), "firmware.elf") == (
        "section .text, byte 2 (4 and 4 bytes)"
    )
