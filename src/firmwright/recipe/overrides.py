"""Defines the recipe keys of the command line, some of which have a short name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from firmwright.documents.chain import EXTENDS
from firmwright.documents.schema_check import Schema, find_errors, knows
from firmwright.documents.stated_values import parse_key, read_values
from firmwright.documents.yaml_text import Pointer, format_pointer
from firmwright.errors import UserError, did_you_mean
from firmwright.recipe.schema import load_schema, load_whole_schema
from firmwright.recipe.user_files import FILE_FORMATS


@dataclass(frozen=True)
class Override:
    """A key with a short name: its pointer, the schema of its value, and its help text."""

    pointer: Pointer
    schema: Schema
    help: str

    def find_file(self, text: str) -> str | None:
        kind = FILE_FORMATS.get(self.schema.get("format", ""))
        return kind.find_required(text) if kind else None

    def find_errors(self, text: str) -> Iterator[str]:
        document, diagnostics = read_values({"value": text})
        yield from (each.message.removeprefix("value: ") for each in diagnostics)
        if not diagnostics:
            yield from (e.message for e in find_errors(document.data["value"], self.schema))


@cache
def list_overrides() -> Mapping[str, Override]:
    """Return the keys with a short name, by short name, in the order of the schema."""
    keys = _find_keys(load_whole_schema(), ())
    return {
        str(pointer[-1]): Override(pointer, schema, schema["override"])
        for pointer, schema in keys
        if "override" in schema
    }


def complete_key(name: str) -> str:
    """Return the key of a name in the command line, such as ``run.samples`` for ``samples``."""
    known = list_overrides().get(name)
    return name if known is None else format_pointer(known.pointer)


def is_key(name: str) -> bool:
    """Return whether a name in the command line is a recipe key, or adds to a key's list."""
    try:
        *parents, last = parse_key(complete_key(name))
    except ValueError:
        return False
    pointer = (*parents, str(last).strip("+"))
    return pointer != (EXTENDS,) and knows(pointer, load_schema(), load_schema())


def refuse_unknown_key(name: str, others: tuple[str, ...] = ()) -> None:
    """Raise UserError if a name is not a key of recipes.

    ``others`` are known names for the hint.
    """
    if name.strip("+") == EXTENDS:
        raise UserError(f"{name}=: write overlays after the recipe: recipe=a.yaml:b.yaml")
    if not is_key(name):
        known = (*others, *list_keys())
        hint = did_you_mean(name, known)
        quoted = re.sub(r"\.(.+)(?=\.\w+$)", r"['\1']", name)
        if is_key(quoted):
            hint = f"; if a name has dots, write {quoted}="
        elif not hint.endswith("?"):
            hint = "; docs/reference/recipe.md lists all keys"
        raise UserError(f"{name}=: unknown variable or key '{name}'{hint}")


@cache
def list_keys() -> tuple[str, ...]:
    """Return all keys with fixed names, such as ``run.samples``."""
    keys = _find_keys(load_whole_schema(), ())
    return tuple(dict.fromkeys(format_pointer(pointer) for pointer, _ in keys))


def _find_keys(schema: Schema, pointer: Pointer) -> Iterator[tuple[Pointer, Schema]]:
    for form in (schema, *schema.get("oneOf", ())):
        for name, part in form.get("properties", {}).items():
            yield (*pointer, name), part
            yield from _find_keys(part, (*pointer, name))
