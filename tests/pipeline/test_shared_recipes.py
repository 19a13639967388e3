"""A recipe that is valid in one folder is not checked again in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.pipeline.command_line import make_catalog
from firmwright.pipeline.shared_recipes import SharedRecipes
from firmwright.pipeline.stage_cache import load_cache
from firmwright.recipe import Recipe, load, load_recipe


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shared"
    monkeypatch.setenv("FIRMWRIGHT_CACHE", str(folder))
    load_cache.cache_clear()
    yield folder
    load_cache.cache_clear()


def load_in(folder: Path) -> Recipe:
    folder.mkdir()
    (folder / "net.onnx").touch()
    path = folder / "net.yaml"
    path.write_text("model: net.onnx\nplatform: host\n")
    return load_recipe(path, {}, make_catalog(), folder / "kept", SharedRecipes())


@pytest.mark.usefixtures("shared")
def test_another_folder_checks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_in(tmp_path / "a")
    monkeypatch.setattr(load, "_check_recipe", None)
    second = load_in(tmp_path / "b")
    assert (second.path, second.data) == (tmp_path / "b/net.yaml", first.data)


def test_damaged_recipe_is_named_and_checked(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load_in(tmp_path / "a")
    (file,) = (path for path in (shared / "cas").rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes().replace(b'"samples": 1', b'"samples": 2'))
    assert load_in(tmp_path / "b").data == first.data
    told = capsys.readouterr().err
    assert told.startswith(f"shared cache: {file}: ")
    assert told.endswith("the recipe was checked instead\n")


@pytest.mark.usefixtures("shared")
def test_missing_file_is_noticed(tmp_path: Path) -> None:
    load_in(tmp_path / "a")
    (tmp_path / "a/net.onnx").unlink()
    with pytest.raises(DiagnosticError, match="no such file"):
        load_recipe(tmp_path / "a/net.yaml", {}, make_catalog(), tmp_path / "b", SharedRecipes())
