"""The markers of firmwright's folders: a build removes and replaces only marked folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.created_folders import (
    INDEX_FILE,
    MARKER,
    begin_results,
    claim_folder,
    finish_results,
    list_foreign_files,
    read_owner,
    release_folder,
    remove_created_files,
    remove_folder,
)
from firmwright.errors import UserError


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished folder of results with the files ``a`` and ``b/c``."""
    unfinished, folder = tmp_path / ".model.partial", tmp_path / "model"
    made = begin_results(unfinished)
    (made / "b").mkdir()
    for name in ("a", "b/c"):
        (made / name).write_text(name)
    finish_results(made, {"a": "", "b/c": ""}, folder)
    return folder


def test_results_are_removed(results: Path) -> None:
    remove_folder(results)
    assert not results.exists()


@pytest.mark.parametrize("name", ["notes.txt", "b/notes.txt", "new/notes.txt"])
def test_results_with_a_foreign_file_are_kept(results: Path, name: str) -> None:
    (results / name).parent.mkdir(exist_ok=True)
    (results / name).write_text("mine")
    with pytest.raises(UserError, match=f"no build of this version wrote {name}; move it"):
        remove_folder(results)
    assert (results / "a").exists()
    remove_created_files(results)
    assert list_foreign_files(results) == [name]
    assert (results / name).read_text() == "mine"


@pytest.mark.parametrize("index", [None, "mine", "[]", '{"files": "a"}', '{"files": {}}'])
def test_without_an_index_of_ours_all_files_are_foreign(tmp_path: Path, index: str | None) -> None:
    (tmp_path / "a").write_text("mine")
    if index is not None:
        (tmp_path / INDEX_FILE).write_text(index)
    remove_created_files(tmp_path)
    assert (tmp_path / "a").read_text() == "mine"


def test_a_link_in_the_place_of_results_is_kept(results: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(results)
    with pytest.raises(UserError, match="wrote this; move it"):
        remove_folder(link)
    remove_created_files(link)
    assert link.is_symlink()
    assert (results / "a").exists()


def test_an_index_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / INDEX_FILE).write_text('{"files": {"../precious": ""}}')
    remove_created_files(folder)
    assert not folder.exists()
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_a_killed_build_leaves_is_removed(tmp_path: Path) -> None:
    """The process died after it created the folder, its empty index, or some files."""
    folder = tmp_path / "model"
    folder.mkdir()
    (begin_results(folder) / "half").write_text("")
    assert not list(begin_results(folder).iterdir())
    (folder / INDEX_FILE).write_text("")
    remove_folder(folder)
    assert not folder.exists()


def test_a_claimed_folder_knows_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    claim_folder(folder)
    assert read_owner(folder) == ""
    (folder / "notes.txt").write_text("mine")
    claim_folder(folder, "../d.yaml")
    claim_folder(folder)
    assert read_owner(folder) == "../d.yaml"
    release_folder(folder)
    assert read_owner(folder) == "../d.yaml"
    (folder / "notes.txt").unlink()
    release_folder(folder)
    assert not any(folder.iterdir())


@pytest.mark.parametrize("name", ["notes.txt", MARKER])
def test_a_folder_with_foreign_files_is_not_claimed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("# mine\n")
    with pytest.raises(UserError, match=f"no build of this version wrote {name}; move it"):
        claim_folder(tmp_path)
    assert (tmp_path / name).read_text() == "# mine\n"
