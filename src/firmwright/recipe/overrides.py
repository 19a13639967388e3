"""What the command line says instead of a recipe: the keys with an ``override`` in the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from firmwright.documents.schema_check import Schema, find_errors
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, did_you_mean
from firmwright.recipe.files import FILE_FORMATS
from firmwright.recipe.schema import load_schema

_WHOLE_NUMBER = re.compile("-?[0-9]{1,18}")
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True)
class Override:
    """A key that the command line sets: its place, the schema of its value, a sentence of help."""

    pointer: Pointer
    schema: Schema
    help: str

    def parse(self, text: str) -> Any:
        """Return the value that the text stands for, or the text where it stands for none."""
        types = {form.get("type") for form in (self.schema, *self.schema.get("oneOf", ()))}
        if "integer" in types and _WHOLE_NUMBER.fullmatch(text):
            return int(text)
        return _SWITCH.get(text, text) if "boolean" in types else text

    def find_file(self, text: str) -> str | None:
        """Return the path of the file that the text has to name, None for other texts."""
        kind = FILE_FORMATS.get(self.schema.get("format", ""))
        return kind.find_required(text) if kind else None


@cache
def list_overrides() -> Mapping[str, Override]:
    """Return the keys that the command line sets, by name, in the order of the schema."""
    schema = load_schema()
    return dict(_find_overrides(schema, (), schema["$defs"]))


def _find_overrides(
    schema: Schema, pointer: Pointer, definitions: Schema
) -> Iterator[tuple[str, Override]]:
    for name, part in schema.get("properties", {}).items():
        if "override" in part:
            complete = {**part, "$defs": definitions}
            yield name, Override((*pointer, name), complete, part["override"])
        yield from _find_overrides(part, (*pointer, name), definitions)


def apply_overrides(data: dict[str, Any], overrides: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Write the overrides, texts by name, into ``data``; yield what is wrong with them."""
    known = list_overrides()
    for name, text in sorted(overrides.items()):
        label = f"{name}={text}"
        if name not in known:
            hint = did_you_mean(name, known)
            yield Diagnostic(label, 0, 0, f"unknown override '{name}'{hint}")
            continue
        value = known[name].parse(text)
        for finding in find_errors(value, known[name].schema):
            yield Diagnostic(label, 0, 0, finding.message)
        *parents, last = known[name].pointer
        holder: Any = data
        for parent in parents:
            holder = holder.get(parent)
        if isinstance(holder, dict):  # else the schema has reported it
            holder[last] = value


def find_override(pointer: Pointer, overrides: Mapping[str, str]) -> str | None:
    """Return ``name=text`` of the override that a value comes from, None where there is none."""
    for name, override in list_overrides().items():
        if name in overrides and pointer[: len(override.pointer)] == override.pointer:
            return f"{name}={overrides[name]}"
    return None
