"""Names of files in a lock, which must not depend on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.recipe.lock import name_files


def test_files_are_named_from_the_recipes_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [Path("recipes/a.npy"), Path("recipes/../models/m.onnx"), tmp_path / "recipes/b.npy"]
    for folder in (Path("recipes"), tmp_path / "recipes"):
        named = name_files([*files, folder / "a.npy"], folder)
        assert list(named) == ["a.npy", "../models/m.onnx", "b.npy"]


def test_files_elsewhere_have_no_folder_and_every_one_a_name(tmp_path: Path) -> None:
    files = [tmp_path / "x/1.png", tmp_path / "y/1.png", tmp_path / "recipes/1.png"]
    assert list(name_files(files, tmp_path / "recipes")) == ["1.png", "1.png (2)", "1.png (3)"]


def test_files_of_an_installed_package_have_its_name_in_front(tmp_path: Path) -> None:
    site = tmp_path / "site"
    files = [site / "npu/__init__.py", site / "npu/templates/npu/a.j2", tmp_path / "recipes/a.j2"]
    named = name_files(files, tmp_path / "recipes", {"acme-npu": site / "npu"})
    assert list(named) == ["acme-npu/__init__.py", "acme-npu/templates/npu/a.j2", "a.j2"]
