"""Writes the recipe of a build as a complete recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmwright.documents.schema_check import Schema
from firmwright.documents.yaml_text import Pointer, write_yaml
from firmwright.recipe.recipe import Recipe
from firmwright.recipe.schema import rewrite_data


def serialize(recipe: Recipe) -> str:
    """Return a recipe's YAML with the values of the command line, sorted, without comments.

    Defaults of the schema are left out. Only the file name of each absolute path stays.
    """
    stated = drop_empty(rewrite_data(recipe.portable, forget_default))
    return write_yaml(stated, sort_keys=True, width=100)


SHOWN = (("platform",), ("target",))
SUPPLIED = (
    (("model", "format"), "relax"),
    (("quantize", "calibration", "percentile"), 99.99),
)
"""The completed values that are not always valid in a recipe."""


def forget_default(pointer: Pointer, value: Any, schema: Schema) -> Any:
    """Return None for a default value, unless readers need to see the value."""
    if pointer in SHOWN or pointer[:2] == ("run", "tolerance"):
        return value  # a tolerance of 0 differs from the default
    is_default = "default" in schema and value == schema["default"]
    return None if is_default or (pointer, value) in SUPPLIED else value


def drop_empty(data: Any) -> Any:
    """Return data without keys that have no value, and without mappings that become empty."""
    if isinstance(data, Mapping):
        kept = {key: drop_empty(value) for key, value in data.items()}
        return {key: value for key, value in kept.items() if value not in (None, {}, [])}
    return [drop_empty(value) for value in data] if isinstance(data, list) else data
