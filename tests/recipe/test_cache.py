"""A recipe that was valid once is not validated again, and never mixed up with another one."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe, write_cache
from firmwright.recipe.recipe import Recipe

SCRIPT = """
import sys
from pathlib import Path
from firmwright.recipe.catalog import Catalog, KnownDevice, KnownPlatform
from firmwright.recipe.load_recipe import load_recipe
devices = {"c": KnownDevice({}, is_fallback=True)}
catalogue = Catalog({"host": KnownPlatform(("zig",), ("native",))}, ("zig",), devices)
recipe = load_recipe(Path(sys.argv[1]), {"platform": "host"}, catalogue, Path(sys.argv[2]))
print(recipe.sha256, *sorted({"yaml", "jsonschema", "tvm"} & set(sys.modules)))
"""


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    (tmp_path / "net.onnx").touch()
    path = tmp_path / "net.yaml"
    path.write_text("model: net.onnx\n" + "# as long as a recipe gets\n" * 40)
    return path


def test_a_cached_recipe_imports_no_parser(recipe_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(recipe_file), str(tmp_path / "cache")]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    )
    assert first[1:] == ["jsonschema", "yaml"]
    assert second == first[:1]


def stored(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_what_is_cached_is_what_was_loaded(
    recipe_file: Path, tmp_path: Path, catalogue: Catalog
) -> None:
    folder = tmp_path / "cache"
    first = load_recipe(recipe_file, {}, catalogue, folder)
    assert load_recipe(recipe_file, {}, catalogue, folder) == first
    assert len(stored(folder)) == 1


def test_every_input_of_the_check_counts(
    recipe_file: Path, tmp_path: Path, catalogue: Catalog
) -> None:
    folder = tmp_path / "cache"
    load_recipe(recipe_file, {}, catalogue, folder)
    assert load_recipe(recipe_file, {"samples": "5"}, catalogue, folder).run.samples == 5

    other_name = recipe_file.rename(tmp_path / "other.yaml")
    assert load_recipe(other_name, {}, catalogue, folder).name == "other"

    without_c = dataclasses.replace(catalogue, devices={"tidl": catalogue.devices["tidl"]})
    with pytest.raises(DiagnosticError, match="unknown device 'c'"):
        load_recipe(other_name, {}, without_c, folder)

    board = dataclasses.replace(catalogue.platforms["rv32-bare"], emulators=("qemu",))
    other_first = dataclasses.replace(catalogue, platforms={"rv32-bare": board})
    assert load_recipe(other_name, {}, other_first, folder).run.emulator == "qemu"

    other_name.write_text("model: net.onnx\nname: changed\n")
    assert load_recipe(other_name, {}, catalogue, folder).name == "changed"


def test_a_model_that_vanished_is_noticed(
    recipe_file: Path, tmp_path: Path, catalogue: Catalog
) -> None:
    folder = tmp_path / "cache"
    load_recipe(recipe_file, {}, catalogue, folder)
    (tmp_path / "net.onnx").unlink()
    with pytest.raises(DiagnosticError, match=r"net\.yaml:1:8: model: no such file"):
        load_recipe(recipe_file, {}, catalogue, folder)


def test_mistakes_are_not_cached(recipe_file: Path, tmp_path: Path, catalogue: Catalog) -> None:
    recipe_file.write_text("model: net.onnx\nplatform: none\n")
    for _ in range(2):
        with pytest.raises(DiagnosticError, match="unknown platform"):
            load_recipe(recipe_file, {}, catalogue, tmp_path / "cache")
    assert not stored(tmp_path / "cache")


def forge(recipe: Recipe, folder: Path, name: str) -> Path:
    """Write another recipe over the only cached one, so that a hit differs from a miss."""
    (file,) = stored(folder)
    forged = dataclasses.replace(recipe, data={**recipe.data, "name": name})
    write_cache(folder, file.stem, forged)
    return file


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\n{}", b"0" * 64 + b"\n{}"])
def test_a_damaged_cache_is_ignored(
    damage: bytes, recipe_file: Path, tmp_path: Path, catalogue: Catalog
) -> None:
    folder = tmp_path / "cache"
    recipe = load_recipe(recipe_file, {}, catalogue, folder)
    file = forge(recipe, folder, "forged")
    assert load_recipe(recipe_file, {}, catalogue, folder).name == "forged"
    file.write_bytes(damage)
    assert load_recipe(recipe_file, {}, catalogue, folder) == recipe


def test_one_changed_byte_is_noticed(recipe_file: Path, tmp_path: Path, catalogue: Catalog) -> None:
    folder = tmp_path / "cache"
    recipe = load_recipe(recipe_file, {}, catalogue, folder)
    (file,) = stored(folder)
    file.write_bytes(file.read_bytes().replace(b'"samples": 1', b'"samples": 2'))
    assert load_recipe(recipe_file, {}, catalogue, folder) == recipe


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    recipe_file: Path, tmp_path: Path, catalogue: Catalog
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert load_recipe(recipe_file, {}, catalogue, tmp_path / "cache").name == "net"
