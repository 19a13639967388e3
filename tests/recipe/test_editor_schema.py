"""The schema for editors offers names, and accepts everything that the recipe's schema accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from firmwright.errors import UserError
from firmwright.recipe.editor_schema import make_editor_schema, write_editor_schema
from firmwright.recipe.schema import schema_file

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return make_editor_schema()


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_ready_recipes_are_valid(schema: dict[str, Any], recipe: Path) -> None:
    jsonschema.validate(yaml.safe_load(recipe.read_text("utf-8")), schema)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("platform", ("rv32-bare", "J7", "./boards/mine.yaml", "mine.yml"), "rv32-bear"),
        ("toolchain", ("zig", "./mine.yaml"), "zag"),
        ("target", ("soma_dory, c", "mine -fast=1, c", ["c7x"]), 5),
        ("run", ({"emulator": "unicorn"},), {"emulator": "unicron"}),
    ],
)
def test_names_are_listed_and_own_files_are_legal(
    schema: dict[str, Any], key: str, right: tuple[Any, ...], wrong: Any
) -> None:
    check = jsonschema.Draft202012Validator(schema)
    assert all(check.is_valid({"model": "m.onnx", key: value}) for value in right)
    assert not check.is_valid({"model": "m.onnx", key: wrong})


def test_it_is_written_beside_recipes(tmp_path: Path) -> None:
    written = write_editor_schema(tmp_path)
    assert json.loads(written.read_text("utf-8"))["$id"] == "urn:firmwright:recipe"
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        write_editor_schema(tmp_path / "none")
    with pytest.raises(UserError, match="is a file of firmwright; name the folder of your recipes"):
        write_editor_schema(schema_file().parent)
