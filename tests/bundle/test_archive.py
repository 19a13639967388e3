"""Archives from outside: archives of firmwright are read, others are rejected with a message."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from firmwright.bundle.archive import (
    LEVEL,
    PART_BYTES,
    BrokenBundleError,
    compress,
    read_archive,
    read_capped,
    unpack_gzip,
    write_archive,
)
from firmwright.bundle.bundle import read_bundle, read_json

FILES = {"firmware.elf": b"\x7fELF", "manifest.json": b"{}\n", "src/main.c": b"int main;\n"}


def pack(*entries: tarfile.TarInfo, form: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return a packed archive with these entries, each filled with zeros."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return gzip.compress(content.getvalue(), mtime=0)


def entry(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.size, found.mtime = kind, size, 0
    found.linkname = "b/target" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return found


def changed(field: str, value: object) -> tarfile.TarInfo:
    found = entry("b/file")
    setattr(found, field, value)
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_archive(tmp_path / "b.tar.gz", "b", FILES)
    folder, files = read_archive(read_capped(tmp_path / "b.tar.gz"), "b.tar.gz")
    assert (folder, files) == ("b", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]


@pytest.mark.parametrize("count", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 400_000])
def test_parts_make_one_stream_on_any_number_of_cores(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(n.to_bytes(4, "little") for n in range(count // 4 + 1))[:count]
    packed = compress(content)
    assert unpack_gzip(packed) == content
    assert gzip.decompress(packed) == content
    assert len(packed) < len(gzip.compress(content, LEVEL)) * 1.01 + 20
    monkeypatch.setattr("firmwright.bundle.archive.count_cores", lambda: 1)
    assert compress(content) == packed


ATTACKS = {
    "symbolic link": (pack(entry("b/file", tarfile.SYMTYPE)), "is a link"),
    "hard link": (pack(entry("b/file", tarfile.LNKTYPE)), "is a link"),
    "folder": (pack(entry("b/folder", tarfile.DIRTYPE)), "not a plain file"),
    "device": (pack(entry("b/null", tarfile.CHRTYPE)), "not a plain file"),
    "pipe": (pack(entry("b/pipe", tarfile.FIFOTYPE)), "not a plain file"),
    "contiguous file": (pack(entry("b/file", tarfile.CONTTYPE)), "not a plain file"),
    "up": (pack(entry("b/../../etc/passwd")), "'..'"),
    "up first": (pack(entry("../file")), "'..'"),
    "absolute": (pack(entry("/etc/passwd")), "absolute"),
    "drive": (pack(entry("C:/file")), "absolute"),
    "backslash": (pack(entry("b\\..\\file")), "backslash"),
    "dot": (pack(entry("b/./file")), "'.'"),
    "two slashes": (pack(entry("b//file")), "empty part"),
    "escape": (pack(entry("b/\x1b[2J")), "cannot be printed"),
    "right to left": (pack(entry("b/\u202egnp.c")), "cannot be printed"),
    "not UTF-8": (pack(changed("name", "b/\udcff")), "damaged"),
    "twice": (pack(entry("b/file"), entry("b/file")), "two entries"),
    "other case": (pack(entry("b/file"), entry("b/FILE")), "two entries"),
    "other spelling": (pack(entry("b/\u00e9"), entry("b/e\u0301")), "two entries"),
    "two folders": (pack(entry("a/file"), entry("b/file")), "one folder"),
    "no folder": (pack(entry("file")), "one folder"),
    "nothing in it": (pack(), "one folder"),
    "nested": (pack(entry("b/" * 17 + "file")), "folders deep"),
    "long name": (
        pack(entry("b/" + "n" * 300), form=tarfile.GNU_FORMAT),
        "name is too long",
    ),
    "extended header": (
        pack(entry("b/" + "n" * 300), form=tarfile.PAX_FORMAT),
        "not a plain file",
    ),
    "time": (pack(changed("mtime", 1)), "not packed by firmwright"),
    "owner": (pack(changed("uname", "root")), "not packed by firmwright"),
    "mode": (pack(changed("mode", 0o4755)), "not packed by firmwright"),
    "order": (pack(entry("b/z"), entry("b/a")), "not packed by firmwright"),
    "many entries": (pack(*(entry(f"b/{i}") for i in range(10_001))), "more than 10,000 entries"),
    "bytes behind it": (pack(entry("b/file")) + b"more", "follow the archive's end"),
    "second stream": (pack(entry("b/file")) * 2, "follow the archive's end"),
    "cut off": (pack(entry("b/file", size=5000))[:-20], "truncated"),
    "no gzip": (b"PK\x03\x04 a zip", "not a .tar.gz archive"),
    "empty": (b"", "truncated"),
    "no tar": (gzip.compress(b"text"), "one folder|not a tar archive"),
    "tar behind its end": (
        gzip.compress(gzip.decompress(pack(entry("b/file"))) + b"more"),
        "not packed by firmwright",
    ),
    "damaged header": (
        gzip.compress(gzip.decompress(pack(entry("b/a"), entry("b/b"))).replace(b"b/b", b"b/c")),
        "not packed by firmwright",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_other_archives_are_refused(attack: str) -> None:
    content, rule = ATTACKS[attack]
    with pytest.raises(BrokenBundleError, match=rule) as raised:
        read_archive(content, "sent.tar.gz")
    assert str(raised.value).startswith("sent.tar.gz: ")
    assert "\x1b" not in str(raised.value)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(256 * 1024**2), 9, mtime=0)
    tracemalloc.start()
    with pytest.raises(BrokenBundleError, match="unpack to more than"):
        read_archive(bomb, "bomb.tar.gz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 1024**2


def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """The time and the system in gzip's header, and the bits that fill a byte, have no effect."""
    write_archive(tmp_path / "b.tar.gz", "b", FILES)
    content = (tmp_path / "b.tar.gz").read_bytes()
    read = []
    for position in range(len(content)):
        for bit in (1, 128):
            damaged = bytearray(content)
            damaged[position] ^= bit
            with suppress(BrokenBundleError):
                read.append(read_archive(bytes(damaged), "b.tar.gz"))
    assert all(found == ("b", FILES) for found in read)
    assert len(read) < 20 < len(content)


def unreadable_files(folder: Path) -> Iterator[Path]:
    yield folder
    yield folder / "missing.tar.gz"
    os.mkfifo(folder / "pipe.tar.gz")
    yield folder / "pipe.tar.gz"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    for path in unreadable_files(tmp_path):
        with pytest.raises(BrokenBundleError, match=r"no such file|not a file"):
            read_capped(path)


def test_a_small_file_is_read_with_little_memory(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_bytes(b"small")
    tracemalloc.start()
    try:
        assert read_capped(tmp_path / "b.tar.gz") == b"small"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


MANIFESTS: dict[str, tuple[bytes, str]] = {
    "key twice": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate key 'c'"),
    "not a number": (b'{"a": NaN}', "NaN is not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "text": (b"hello", "not JSON"),
    "other encoding": ("{}".encode("utf-16"), "not JSON"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_json_from_outside_is_read_strictly(case: str) -> None:
    content, rule = MANIFESTS[case]
    with pytest.raises(BrokenBundleError, match=rule):
        read_json(content, "manifest.json")


Edit = Callable[[dict[str, bytes]], object]


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda files: files.pop("manifest.json"), "has no manifest.json"),
        (lambda files: files.update({"manifest.json": b"[]"}), "does not fit its schema"),
        (
            lambda files: files.update({"manifest.json": b'{"manifest_version": 99}'}),
            "has version 99",
        ),
    ],
)
def test_an_archive_without_a_fit_manifest_is_no_bundle(
    edit: Edit, rule: str, tmp_path: Path
) -> None:
    files = dict(FILES)
    edit(files)
    write_archive(tmp_path / "b.tar.gz", "b", files)
    with pytest.raises(BrokenBundleError, match=rule):
        read_bundle(tmp_path / "b.tar.gz")
