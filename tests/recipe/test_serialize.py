"""The complete recipe in a bundle has the meaning of the original recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.value_origins import serialize
from tests.quality.test_repository import ROOT

FOLDERS = ("recipes", "examples/extending", "examples/diana")
RECIPES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_it_is_the_same_recipe(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, {"platform": "host"}, make_catalog())
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in path.parent.iterdir():
        (folder / file.name).symlink_to(file)
    for used in {file.split("/")[1] for file in find_outside(recipe.data)}:
        (tmp_path / used).symlink_to(ROOT / used)
    again = folder / "again.yaml"
    again.write_text(serialize(recipe), encoding="utf-8")
    assert load_recipe(again, {}, make_catalog()).sha256 == recipe.sha256
    assert serialize(load_recipe(again, {}, make_catalog())) == serialize(recipe)


def find_outside(data: object) -> list[str]:
    """Return the paths in a recipe that begin above its folder."""
    if isinstance(data, dict):
        return [path for value in data.values() for path in find_outside(value)]
    if isinstance(data, list):
        return [path for value in data for path in find_outside(value)]
    return [data] if isinstance(data, str) and data.startswith("../") else []
