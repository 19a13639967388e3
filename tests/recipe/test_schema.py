"""The recipe schema itself, and the page made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from firmwright.recipe import docs

SCHEMA: dict[str, Any] = json.loads(
    files("firmwright.recipes").joinpath("recipe.schema.json").read_text("utf-8")
)
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "recipe.md"


def properties(schema: Any, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, part in schema.get("properties", {}).items():
            yield prefix + name, part
            yield from properties(part, f"{prefix}{name}.")
        for key, part in schema.items():
            if key not in {"properties", "examples", "default"}:
                yield from properties(part, prefix)
    elif isinstance(schema, list):
        for part in schema:
            yield from properties(part, prefix)


KEYS = list(properties(SCHEMA))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert len(KEYS) > 20


@pytest.mark.parametrize(("key", "part"), KEYS, ids=[key for key, _ in KEYS])
def test_every_key_is_described_and_its_examples_are_valid(key: str, part: dict[str, Any]) -> None:
    assert part["description"].endswith("."), key
    assert part["examples"], key
    for value in [*part["examples"], *([part["default"]] if "default" in part else [])]:
        jsonschema.Draft202012Validator({**part, "$defs": SCHEMA["$defs"]}).validate(value)


def test_the_examples_are_valid() -> None:
    for example in SCHEMA["examples"]:
        jsonschema.Draft202012Validator(SCHEMA).validate(example)


def test_the_page_has_every_key() -> None:
    page = docs.render_recipe_page()
    assert (
        "- **`selftest`** (true or false or whole number from 1 to 16, default `false`): " in page
    )
    assert "- **`counter`** (whole number ≥ 0, optional): " in page
    for key, _ in KEYS:
        last = key.rsplit(".", 1)[-1]
        assert f"{last}`** (" in page or f"## `{last}`" in page, key


def test_the_page_in_the_repository_is_fresh() -> None:
    assert docs.main(["--check", str(PAGE.parent)]) == 0, "run: python -m firmwright.recipe.docs"


def test_a_stale_page_is_noticed_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "description-files.md"
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert docs.main([str(tmp_path)]) == 0
    page.write_text("old")
    capsys.readouterr()
    assert docs.main(["--check", str(tmp_path)]) == 1
    message = f"{page} is stale; run: python -m firmwright.recipe.docs\n"
    assert capsys.readouterr().err == message
    assert page.read_text() == "old"
    assert docs.main([str(tmp_path)]) == 0
    assert docs.main(["--check", str(tmp_path)]) == 0


def test_the_rewrites_that_a_recipe_may_name_are_those_that_exist() -> None:
    from firmwright.transforms.optional import OPTIONAL

    assert SCHEMA["$defs"]["rewrites"]["items"]["enum"] == [t.name for t in OPTIONAL]
