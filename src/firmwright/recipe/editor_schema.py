"""Writes the recipe's schema for editors, which names the installed platforms and devices."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firmwright.documents.schema_check import Schema
from firmwright.documents.whole_file import WRITE_REMEDY
from firmwright.errors import UserError, explain_failure
from firmwright.recipe.schema import load_schema, schema_file
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain import load_platform, platform_names, toolchain_names
from firmwright.toolchain.emulator_names import emulator_names

FILE_NAME = "recipe.schema.json"

ADDED = "^\\+|\\+$"
"""The pattern of keys that add items to a list of a base."""

DESCRIPTION_FILE = {"type": "string", "pattern": "/|\\.ya?ml$"}
"""The schema of the path of a custom platform or toolchain."""


FIRST_LINE = f"# yaml-language-server: $schema={FILE_NAME}"
"""The comment from which an editor reads the location of a recipe's schema."""


def list_platforms() -> list[str]:
    names = platform_names()
    return [*names, *sorted(alias for name in names for alias in load_platform(name).aliases)]


def list_targets() -> list[str]:
    """Return the devices, and the fallback `c` after each device that rejects some operators."""
    return [
        name if load_target(name).is_fallback else f"{name}, c" for name in sorted(target_names())
    ]


def allow_names(schema: Any, names: Sequence[str], *others: Schema) -> None:
    schema["anyOf"] = [{"enum": list(names)}, *others]


def write_editor_schema(folder: Path) -> Path:
    """Write the schema into a folder of recipes.

    Raises UserError if the file cannot be written, or if it is firmwright's schema.
    """
    path = folder / FILE_NAME
    if path.exists() and path.samefile(schema_file()):
        raise UserError(f"{path} is a file of firmwright; name the folder of your recipes")
    with explain_failure(f"{path}: cannot be written", WRITE_REMEDY):
        path.write_text(format_editor_schema(), encoding="utf-8")
    return path


def format_editor_schema() -> str:
    return json.dumps(make_editor_schema(), indent=2) + "\n"


def make_editor_schema() -> dict[str, Any]:
    """Return the schema with the installed platforms, devices, toolchains and emulators.

    Other names stay valid if a recipe may name a custom file. A custom device and options of a
    device may be any text.
    """
    schema: dict[str, Any] = copy.deepcopy(dict(load_schema()))
    keys = schema["properties"]
    allow_names(keys["platform"], list_platforms(), DESCRIPTION_FILE)
    allow_names(keys["toolchain"], list(toolchain_names()), DESCRIPTION_FILE)
    (mix,) = (form for form in keys["target"]["oneOf"] if form["type"] == "string")
    for schema_of_mix in (mix, keys["compare"]):
        allow_names(schema_of_mix, list_targets(), {"type": "string"})
    allow_names(keys["run"]["properties"]["emulator"], list(emulator_names()))
    allow_parts(schema)
    return schema


def allow_parts(schema: Any) -> None:
    """Change a schema so that each mapping may be incomplete and may contain ``null`` and ``key+``.

    A base of the recipe may complete the mapping.
    """
    for key, part in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if isinstance(part, dict | list) and key not in ("if", "then", "not"):
            allow_parts(part)
    if not isinstance(schema, dict):
        return
    for rule in ("required", "dependentRequired"):
        if isinstance(schema.get(rule), dict | list):
            del schema[rule]
    if isinstance(schema.get("oneOf"), list):
        schema["anyOf"] = schema.pop("oneOf")
    if isinstance(schema.get("properties"), dict):
        parts = schema["properties"]
        schema["properties"] = {k: {"anyOf": [v, {"type": "null"}]} for k, v in parts.items()}
        schema.setdefault("patternProperties", {})[ADDED] = {"type": "array"}
