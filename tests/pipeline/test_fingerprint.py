"""A fingerprint changes with each relevant file, and is reused without a read of the files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.pipeline import fingerprint
from firmwright.pipeline.fingerprint import Fingerprint, find_fingerprint
from firmwright.toolchain.opened_files import OpenedFiles


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a tool; all its files are older than this process."""
    monkeypatch.setattr(fingerprint, "KNOWN", {})
    monkeypatch.setattr(fingerprint, "find_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(fingerprint, "is_settled", lambda _: True)
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "compiler").write_text("one")
    return folder


def look(folder: Path) -> OpenedFiles:
    found = (folder / "compiler", folder / "library")
    places = (str(folder), str(folder / "missing"))
    return OpenedFiles(tuple(str(path) for path in found if path.exists()), places)


def find(folder: Path) -> Fingerprint:
    fingerprint.KNOWN.clear()  # as in another process
    return find_fingerprint(["tool"], lambda: look(folder))


def fail() -> OpenedFiles:
    raise AssertionError("the tool was asked again")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a program": lambda folder: (folder / "compiler").write_text("two"),
    "a program of the same size and time": lambda folder: replace(folder / "compiler"),
    "a library that comes first": lambda folder: (folder / "library").write_text("new"),
}


def replace(path: Path) -> None:
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_gives_another_digest(tool: Path, change: Callable[[Path], object]) -> None:
    first = find(tool)
    change(tool)
    second = find(tool)
    assert second.digest != first.digest
    assert find(tool) == second


def test_nothing_is_asked_while_nothing_changes(tool: Path) -> None:
    first = find(tool)
    fingerprint.KNOWN.clear()
    assert find_fingerprint(["tool"], fail) == first
    (tool / "compiler").touch()
    assert find(tool).digest == first.digest


def test_variable_that_decides_asks_again(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(tool)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tool))
    with pytest.raises(AssertionError, match="asked again"):
        find_fingerprint(["tool"], fail)


def test_damaged_answer_is_not_believed(tool: Path, tmp_path: Path) -> None:
    first = find(tool)
    (kept,) = (tmp_path / "cache" / "tools").iterdir()
    kept.write_text(kept.read_text().replace(first.digest, "0" * 64))
    assert find(tool) == first


def test_folder_of_the_tool_does_not_count(tool: Path, tmp_path: Path) -> None:
    first = find(tool)
    moved = tool.rename(tmp_path / "elsewhere")
    assert find(moved).digest == first.digest
