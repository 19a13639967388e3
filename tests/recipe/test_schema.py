"""The recipe schema itself, and the page made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from tests.quality import key_pages

SCHEMA: dict[str, Any] = json.loads(
    files("firmwright.recipes").joinpath("recipe.schema.json").read_text("utf-8")
)


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
    page = key_pages.render_recipe_page()
    assert (
        "- **`selftest`** (true or false or whole number from 1 to 16, default `false`): " in page
    )
    assert "- **`counter`** (whole number ≥ 0, optional): " in page
    for key, _ in KEYS:
        last = key.rsplit(".", 1)[-1]
        assert f"{last}`** (" in page or f"## `{last}`" in page, key


def test_the_rewrites_that_a_recipe_may_name_are_those_that_exist() -> None:
    from firmwright.transforms.optional import OPTIONAL

    assert SCHEMA["$defs"]["rewrites"]["items"]["enum"] == [t.name for t in OPTIONAL]
