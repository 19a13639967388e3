"""Loads the recipe's schema, and visits a recipe's data together with the schema.

A visitor is a function that processes one value. Visitors find files, remove absolute paths and
normalize the spelling of values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from firmwright.documents.schema_check import Schema, read_schema, resolve_reference
from firmwright.documents.yaml_text import Pointer

Visit = Callable[[Pointer, Any, Schema], Any]
"""A function that receives a value's pointer, the value and its schema, and returns a new value."""

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}


def load_schema(name: str = "recipe") -> Schema:
    """Return the schema of a recipe, or of a recipe with several networks (``networks``)."""
    return read_schema("recipes", f"{name}.schema.json")


@cache
def digest_schema() -> str:
    return hashlib.sha256(schema_file().read_bytes()).hexdigest()


def schema_file() -> Path:
    return Path(str(files("firmwright.recipes").joinpath("recipe.schema.json")))


def rewrite_data(data: Any, visit: Visit) -> Any:
    """Return a recipe's data as changed by ``visit``, which receives inner values first.

    Mappings in the result are sorted. Invalid data is visited as far as it matches the schema.
    """

    def rewrite(value: Any, schema: Schema, pointer: Pointer) -> Any:
        for form in schema.get("oneOf", ()):
            if _fits(value, form):
                value = rewrite(value, form, pointer)
                break
        if isinstance(value, dict):
            parts, others = schema.get("properties", {}), schema.get("additionalProperties")
            others = others if isinstance(others, Mapping) else {}
            value = {
                key: rewrite(part, parts.get(key, others), (*pointer, key))
                for key, part in sorted(value.items(), key=_get_name)
            }
        elif isinstance(value, list) and "items" in schema:
            value = [rewrite(v, schema["items"], (*pointer, i)) for i, v in enumerate(value)]
        return visit(pointer, value, schema)

    return rewrite(data, load_whole_schema(), ())


def _get_name(item: tuple[Any, Any]) -> str:
    return str(item[0])


@cache
def load_whole_schema() -> Schema:
    """Return the schema of a recipe with a definition in place of each reference."""
    root = load_schema()

    def complete(part: Any) -> Any:
        if isinstance(part, list):
            return [complete(each) for each in part]
        if not isinstance(part, dict):
            return part
        return {key: complete(value) for key, value in resolve_reference(part, root).items()}

    return {key: complete(value) for key, value in root.items() if key != "$defs"}


def _fits(value: Any, form: Schema) -> bool:
    if "type" in form and not isinstance(value, _TYPES[form["type"]]):
        return False
    return all(isinstance(value, dict) and key in value for key in form.get("required", ()))
