"""Folders that cannot be the build folder: they are rejected before anything is written."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

import pytest
from doit import doit_cmd

import firmwright
from firmwright.created_folders import INDEX_FILE, read_owner
from firmwright.errors import UserError
from firmwright.pipeline.build_root import prepare_build_root

OUTDIR = {
    ".": "is the folder of d.yaml",
    "home": "is your home folder",
    "/": "is the root of the file system",
    "~/new": "starts with ~, which the shell did not replace; ",
    ".git": "is in a folder of git",
    ".git/hooks/new": "is in a folder of git",
    "other": "is the top of a git repository",
    "package": "is in a Python package",
    "{source}/new": "is in a Python package",
    "{packages}/new": "is in a Python package",
    "linked": "is a symbolic link",
    "notes": "has files that no build of this version wrote (a, b, c and 1 more)",
    "old/model/new": "is in a result of the build in ",
}
"""Values of outdir, and the reasons why they are rejected."""
FOLDERS = {"source": Path(firmwright.__file__).parent, "packages": site.getsitepackages()[0]}
"""The folders of this installation by the names that ``OUTDIR`` uses for them."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("home", ".git", "other/.git", "empty", "notes", "old/model", "package"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("d.yaml", "package/__init__.py", *(f"notes/{each}" for each in "abcd")):
        (tmp_path / name).write_text("mine\n")
    (tmp_path / "old/model" / INDEX_FILE).write_text('{"files": {}}')
    (tmp_path / "linked").symlink_to("empty")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", ["doit"])
    return tmp_path


def prepare(monkeypatch: pytest.MonkeyPatch, **words: str) -> Path:
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", {"recipe": "d.yaml", **words})
    return prepare_build_root()


def list_tree(place: Path) -> list[str]:
    return sorted(os.path.join(a, n) for a, b, c in os.walk(place) for n in (*b, *c))  # noqa: PTH118


@pytest.mark.parametrize("pattern", OUTDIR)
def test_a_folder_that_is_rejected(
    place: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    outdir = pattern.format(**FOLDERS)
    before = list_tree(place)
    with pytest.raises(UserError) as raised:
        prepare(monkeypatch, outdir=outdir)
    message = str(raised.value)
    assert message.startswith(f"outdir={outdir}: {OUTDIR[pattern]}")
    assert message.endswith("; choose another folder, such as outdir=build/d")
    assert list_tree(place) == before


@pytest.mark.parametrize("outdir", ["new/deep", "empty"])
def test_a_new_or_empty_folder_is_marked_and_then_used(
    place: Path, monkeypatch: pytest.MonkeyPatch, outdir: str
) -> None:
    prepare(monkeypatch, outdir=outdir)
    assert read_owner(place / outdir) == ""
    (place / outdir / "notes.txt").write_text("mine")
    assert prepare(monkeypatch, outdir=outdir) == Path(outdir)


def test_the_default_folder_may_have_other_files(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "build").mkdir()
    (place / "build/CMakeCache.txt").write_text("mine")
    assert prepare(monkeypatch) == Path("build")
    assert (place / "build/CMakeCache.txt").read_text() == "mine"


def test_a_build_folder_of_an_earlier_version_is_rejected(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "build").mkdir()
    (place / "build/.doit.db").write_text("old")
    expected = r"outdir=build: has files that no build of this version wrote \(\.doit\.db\); choose"
    with pytest.raises(UserError, match=expected):
        prepare(monkeypatch)
