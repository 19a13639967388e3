"""Entries of the shared cache from outside: a full folder, a server, and read-only users."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from random import Random

import fsspec
import pytest

from firmwright.errors import DiagnosticError
from firmwright.shared_cache import open_cache, stores
from firmwright.shared_cache.cache import SharedCache
from firmwright.shared_cache.entry import CachedFile, CacheError, Entry, decode, encode
from firmwright.shared_cache.stores import BucketStore, FolderStore, WebStore
from firmwright.web import Pace

from .server import Handler, Refusing, Slow, Stopping, Trickling, serve

KEY = "0" * 64


def make_entry(*paths: str) -> Entry:
    return Entry(KEY, tuple(CachedFile(path, "1" * 64, 3, False) for path in paths), ("a note",))


def test_an_entry_is_an_action_result_of_bazels() -> None:
    """The bytes are written by hand, from the field numbers of remote_execution.proto."""
    entry = Entry(KEY, (CachedFile("a", "ab", 3, True),), ())
    digest = hashlib.sha256(f'["{KEY}", [["a", "ab", 3, true]], []]'.encode()).hexdigest()
    recorded = f'{{"key": "{KEY}", "notes": [], "sha256": "{digest}"}}'.encode()
    length = bytes([len(recorded) % 128 + 128, len(recorded) // 128])
    file = b"\x0a\x01a" + b"\x12\x06" + b"\x0a\x02ab" + b"\x10\x03" + b"\x20\x01"
    expected = b"\x12" + bytes([len(file)]) + file + b"\x2a" + length + recorded
    assert encode(entry) == expected
    assert decode(expected, KEY) == entry


@pytest.mark.parametrize("path", ["../x", "/x", "a/../x", "a//b", "", ".", "./a"])
def test_a_file_outside_its_folder_is_refused(path: str) -> None:
    with pytest.raises(CacheError, match="a file cannot be named"):
        decode(encode(make_entry("good", path)), KEY)


def test_a_file_that_is_there_twice_is_refused() -> None:
    with pytest.raises(CacheError, match="a file cannot be named"):
        decode(encode(make_entry("a", "a")), KEY)


@pytest.mark.parametrize("data", [b"", b"\xff" * 9, b"<html>", encode(make_entry())[:-1]])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(CacheError, match="not an entry"):
        decode(data, KEY)


def test_the_entry_of_another_stage_is_refused() -> None:
    with pytest.raises(CacheError, match="another stage"):
        decode(encode(make_entry()), "2" * 64)


def test_a_full_folder_loses_what_was_not_used_for_longest(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, 100)
    store.room = 1000
    for number in range(10):
        store.write(f"cas/{number:064}", bytes(20))
        os.utime(store.find(f"cas/{number:064}"), ns=(number, number))
    store.prune()
    assert [n for n in range(10) if store.read(f"cas/{n:064}", 20)] == [6, 7, 8, 9]


def test_a_full_folder_keeps_what_is_not_of_the_cache(tmp_path: Path) -> None:
    """The folder may also contain other files of the user."""
    for name in ("photos/2024/summer.jpg", "a/b/c/d", f"cas/12/{'x' * 64}", "ac/ab"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(1000))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    store = FolderStore(tmp_path, 100)
    for number in range(10):
        store.write(f"cas/{number:064}", bytes(20))
    assert [path for path in before if not path.exists()] == []
    assert sum(size for _, size, _ in store.list_files()) <= 110


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder of a stage that wrote a program."""
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "tool").write_bytes(b"#!")
    (folder / "tool").chmod(0o755)
    return folder


def test_a_folder_never_holds_much_more_than_its_limit(tmp_path: Path) -> None:
    """One build may exceed the limit."""
    store = FolderStore(tmp_path, 1000)
    for number in range(100):
        store.write(f"cas/{number:064}", bytes(50))
        assert sum(size for _, size, _ in store.list_files()) <= 1100
    assert store.read(f"cas/{99:064}", 50) is not None


def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, 1000)
    place = store.find_file(f"ac/{KEY}")
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    with pytest.raises(CacheError, match=f"{KEY}: not an entry of a stage"):
        SharedCache(store).restore(KEY, tmp_path / "it")


def check_exchange(cache: SharedCache, made: Path, found: Path) -> None:
    """Store a folder, and restore it."""
    cache.keep(KEY, made, ["a note"])
    entry = cache.restore(KEY, found)
    assert entry is not None
    assert entry.notes == ("a note",)
    assert (found / "tool").stat().st_mode & 0o111
    assert cache.restore("3" * 64, found) is None


def test_a_folder_gives_what_it_took(made: Path, tmp_path: Path) -> None:
    check_exchange(SharedCache(FolderStore(tmp_path / "cache", 1000)), made, tmp_path / "it")


def test_who_may_only_read_keeps_nothing(made: Path, tmp_path: Path) -> None:
    SharedCache(FolderStore(tmp_path / "cache", 1000), "read").keep(KEY, made, [])
    assert not (tmp_path / "cache").exists()


def test_who_may_only_write_takes_nothing(made: Path, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "cache", 1000)
    SharedCache(store, "write").keep(KEY, made, [])
    assert SharedCache(store, "write").restore(KEY, tmp_path / "it") is None
    assert SharedCache(store, "read").restore(KEY, tmp_path / "it") is not None


def test_others_may_read_what_one_keeps(made: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    SharedCache(FolderStore(tmp_path / "cache", 1000)).keep(KEY, made, [])
    modes = {path.stat().st_mode for path in (tmp_path / "cache").glob("*/*/*")}
    assert modes == {plain.stat().st_mode}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_gives_what_it_has(made: Path, disk: Path, tmp_path: Path) -> None:
    cache = SharedCache(FolderStore(disk, 1 << 30))
    cache.keep(KEY, made, [])
    before = {path for path in disk.rglob("*") if path.is_file()}
    (made / "large").write_bytes(bytes(1 << 16))
    with pytest.raises(CacheError, match="No space left on device"):
        cache.keep("4" * 64, made, [])
    assert {path for path in disk.rglob("*") if path.is_file()} == before  # no partial file
    cache.keep("4" * 64, made, [])  # the message is printed once
    assert cache.restore(KEY, tmp_path / "it") is not None
    assert cache.restore("4" * 64, tmp_path / "it") is None


def test_a_disk_that_is_only_read_gives_what_it_has(made: Path, disk: Path, tmp_path: Path) -> None:
    SharedCache(FolderStore(disk, 1 << 30)).keep(KEY, made, [])
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    cache = SharedCache(FolderStore(disk, 1 << 30))
    assert cache.restore(KEY, tmp_path / "it") is not None
    with pytest.raises(CacheError, match="Read-only file system"):
        cache.keep("4" * 64, made, [])
    assert cache.restore(KEY, tmp_path / "it") is not None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    with serve(tmp_path / "served") as running:
        yield running


def test_a_server_gives_what_it_took(
    made: Path, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    cache = SharedCache(WebStore(f"http://127.0.0.1:{server.server_port}/team/"))
    check_exchange(cache, made, tmp_path / "it")
    assert (tmp_path / "served/team/ac" / KEY).is_file()
    (blob,) = (tmp_path / "served/team/cas").iterdir()
    blob.write_bytes(b"##")
    with pytest.raises(CacheError, match=r"cas/\w+: tool does not match its digest"):
        cache.restore(KEY, tmp_path / "it")
    blob.write_bytes(b"#! and more")
    with pytest.raises(CacheError, match="more than 2 bytes"):
        cache.restore(KEY, tmp_path / "it")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Slow, "too slow by 0 s; this build does not use it again"),
        (Trickling, "the server sends less than 131,072 bytes a second"),
        (Stopping, r"the server sent 10 of \d+ bytes"),
    ],
)
def test_no_build_waits_for_a_bad_server(
    kind: type[Handler],
    message: str,
    made: Path,
    server: ThreadingHTTPServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "ANSWER", 0.1)
    monkeypatch.setattr(stores, "MAX_WAIT_S", 0.15)
    monkeypatch.setattr(stores, "PACE", Pace(5.0, 5.0, 0.1, 1 << 17))
    address = f"http://127.0.0.1:{server.server_port}"
    SharedCache(WebStore(address)).keep(KEY, made, [])
    server.RequestHandlerClass = partial(kind, directory=str(tmp_path / "served"))
    cache = SharedCache(WebStore(address))
    with pytest.raises(CacheError, match=f"^{address}/.*: {message}$"):
        cache.restore(KEY, tmp_path / "it")
    assert cache.restore(KEY, tmp_path / "it") is None
    cache.keep("4" * 64, made, [])
    assert not (tmp_path / "served/ac" / ("4" * 64)).exists()


def test_a_server_that_takes_nothing_still_gives(
    made: Path, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    address = f"http://127.0.0.1:{server.server_port}"
    SharedCache(WebStore(address)).keep(KEY, made, [])
    server.RequestHandlerClass = partial(Refusing, directory=str(tmp_path / "served"))
    cache = SharedCache(WebStore(address))
    with pytest.raises(CacheError, match="the server answers 403"):
        cache.keep(KEY, made, [])
    cache.keep(KEY, made, [])  # the message is printed once
    assert cache.restore(KEY, tmp_path / "it") is not None


def test_no_message_shows_a_password(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    server.shutdown()
    server.server_close()
    place = f"127.0.0.1:{server.server_port}"
    with pytest.raises(CacheError, match=f"^http://…@{place}/team/ac/{KEY}: "):
        SharedCache(WebStore(f"http://me:secret@{place}/team")).restore(KEY, tmp_path)


def test_a_server_that_is_down_is_asked_once(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    cache = SharedCache(WebStore(f"http://127.0.0.1:{server.server_port}"))
    server.shutdown()
    server.server_close()
    with pytest.raises(CacheError, match="the server does not answer"):
        cache.restore(KEY, tmp_path)
    assert cache.restore(KEY, tmp_path) is None


def test_a_bucket_gives_what_it_took(made: Path, tmp_path: Path) -> None:
    """fsspec's file system in memory replaces S3; an address opens both."""
    files = fsspec.filesystem("memory")
    store = BucketStore("memory://bucket/team")
    cache = SharedCache(store)
    check_exchange(cache, made, tmp_path / "it")
    assert files.exists(f"/bucket/team/ac/{KEY}")
    (blob,) = files.ls("/bucket/team/cas", detail=False)
    files.pipe_file(blob, b"##")
    with pytest.raises(CacheError, match=r"cas/\w+: tool does not match its digest"):
        cache.restore(KEY, tmp_path / "it")
    files.pipe_file(blob, b"#! and more")
    with pytest.raises(CacheError, match=r"larger than expected \(2 bytes\)"):
        cache.restore(KEY, tmp_path / "it")
    files.rm("/bucket", recursive=True)


def test_a_bucket_that_fails_is_asked_once(tmp_path: Path) -> None:
    (tmp_path / "ac").write_bytes(b"a file, where a folder should be")
    cache = SharedCache(BucketStore(f"file://{tmp_path}"))
    with pytest.raises(CacheError, match="Not a directory"):
        cache.restore(KEY, tmp_path / "it")
    assert cache.restore(KEY, tmp_path / "it") is None


@pytest.mark.parametrize("over_http", [False, True])
def test_of_100_poisoned_entries_none_is_used(
    over_http: bool, made: Path, server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    """A byte of the entry or of its file is changed, or the end is missing."""
    place = tmp_path / ("served" if over_http else "cache")
    address = f"http://127.0.0.1:{server.server_port}"
    cache = SharedCache(WebStore(address) if over_http else FolderStore(place, 10_000))
    random = Random(1)
    for number in range(100):
        cache.keep(KEY, made, ["a note"])  # it replaces the poisoned entry
        assert cache.restore(KEY, tmp_path / "it") is not None
        path = random.choice(sorted(p for p in place.rglob("*") if p.is_file()))
        data = bytearray(path.read_bytes())
        if number % 4 == 0:
            del data[random.randrange(len(data)) :]
        else:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        with pytest.raises(CacheError, match=path.name):  # the message names it
            cache.restore(KEY, tmp_path / "it")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FIRMWRIGHT_CACHE", "xy://team", "'xy://team' cannot be opened: Protocol not known: xy"),
        ("FIRMWRIGHT_CACHE_ROLE", "admin", "'admin' is not a role; expected both, read, write"),
        ("FIRMWRIGHT_CACHE", "http://", "'http://' is not an address such as http://cache.example"),
        ("FIRMWRIGHT_CACHE", "ftp://", "the address 'ftp://' is not complete; expected"),
        ("FIRMWRIGHT_CACHE", "https:/h/x", "an address begins with two slashes: https://…"),
        ("FIRMWRIGHT_CACHE", "http://a:b@h:99999", "'http://…@h:99999' is not an address"),
        ("FIRMWRIGHT_CACHE", "/etc/passwd/x", "'/etc/passwd' is not a folder"),
        (
            "FIRMWRIGHT_CACHE_SIZE",
            "much",
            "expected a size such as 512 B, .* or 2 GiB, found 'much'",
        ),
    ],
)
def test_a_cache_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv("FIRMWRIGHT_CACHE", "somewhere")
    monkeypatch.setenv(variable, value)
    with pytest.raises(DiagnosticError, match=f"^{variable}: {message}"):
        open_cache()
