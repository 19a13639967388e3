"""Writes the pages of all keys from the schemas: recipe.md and description-files.md."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from firmwright.documents.schema_check import Schema, read_schema, resolve_reference
from firmwright.recipe.overrides import list_overrides
from firmwright.recipe.schema import load_schema

_PAGE = """\
<!-- Generated from recipes/recipe.schema.json by `python -m tests.quality.generated`. -->
# The recipe

{description}

```yaml
# yaml-language-server: $schema=recipe.schema.json
{example}```

With the first line, an editor completes and checks keys by `recipes/recipe.schema.json`.
{overrides}
A build reports all errors of a recipe at once, each with file, line and column.

## Keys without a block

{keys}"""

_DESCRIPTION_FILES = """\
<!-- Generated from the schemas in toolchains/ by `python -m tests.quality.generated`. -->
# The files of platforms, toolchains, cycle tables and boards

This page lists all keys. [Platforms and toolchains](platforms.md) describes the built-in files, \
and [a custom board](../howto/own-board.md) describes how to write new files.
"""
_KINDS = {
    "platform": "platform",
    "toolchain": "toolchain",
    "cycles": "cycle table",
    "board": "board",
    "board_access": "connected board",
}
"""The names of the files on the page, by schema."""

_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}


@dataclass(frozen=True)
class _Key:
    name: str
    schema: Schema
    required: bool


_PAGE_PATH = re.compile(r"docs/(howto|reference)/([a-z-]+)\.md")
"""The path of a page in a description. The pages of this module link such a page."""


def link_pages(text: str) -> str:
    """Return a text for `docs/reference` with links in place of the paths of pages."""
    return _PAGE_PATH.sub(r"[\2](../\1/\2.md)", text)


def render_recipe_page() -> str:
    schema = load_schema()
    return _PAGE.format(
        description=schema["description"],
        example=yaml.safe_dump(schema["examples"][0], sort_keys=False),
        overrides=_describe_overrides(),
        keys=link_pages(_format_keys(schema, 2)),
    )


def render_description_files() -> str:
    parts = [_DESCRIPTION_FILES]
    for name, kind in _KINDS.items():
        schema = read_schema("toolchains", f"{name}.schema.json")
        parts += [f"## A {kind}\n\n{schema['description']}\n\n{_format_keys(schema, 3)}"]
    return link_pages("\n".join(parts))


def _format_keys(schema: Schema, level: int) -> str:
    """Return the keys without a block as a list, followed by one section per block."""
    keys = {key.name: key for key in _find_keys(schema, "", schema, set())}
    blocks: dict[str, list[str]] = {}
    for name in keys:
        blocks.setdefault(re.split(r"[.\[]", name)[0], []).append(name)
    lines = [_format_key(keys[name], schema) for name, names in blocks.items() if len(names) == 1]
    parts = ["\n".join(lines), ""]
    for block, (_, *names) in blocks.items():
        if names:
            rows = "\n".join(_format_key(keys[name], schema) for name in names)
            parts += [f"{'#' * level} `{block}`", "", _format_block(keys[block], schema), rows, ""]
    return "\n".join(parts)


def _format_block(key: _Key, root: Schema) -> str:
    text = f"Type: {_format_type(key.schema, root)}, {_format_default(key)}. "
    text += f"{key.schema['description']}\n"
    examples = key.schema.get("examples", ())
    if examples:
        example = yaml.safe_dump({key.name: examples[0]}, sort_keys=False)
        text += f"\n```yaml\n{example}```\n"
    return text


def _describe_overrides() -> str:
    *names, last = (f"`{name}=`" for name in list_overrides())
    sentence = (
        f"{', '.join(names)} and {last} on the command line replace the values of the recipe. "
        "An argument such as `budget.latency=10ms` sets any other key."
    )
    return textwrap.fill(sentence, 100, break_on_hyphens=False)


def _find_keys(schema: Schema, prefix: str, root: Schema, described: set[str]) -> Iterator[_Key]:
    """Yield every key that a value of ``schema`` may contain, outer keys first.

    Each definition of the schema is described once. ``described`` contains the references of the
    definitions that are already described.
    """
    referred = list(_resolve_forms(schema, root))
    forms = [
        form
        for reference, form in referred
        if reference not in described
        and ("properties" in form or "items" in form or _has_other_keys(form))
    ]
    described.update(reference for reference, _ in referred if reference)
    names: dict[str, Schema] = {}
    for form in forms:
        for name, part in form.get("properties", {}).items():
            names.setdefault(name, part)
    for name, part in names.items():
        required = all(name in list_required(form) for form in forms)
        yield _Key(prefix + name, resolve_reference(part, root), required)
        yield from _find_keys(part, f"{prefix}{name}.", root, described)
    for form in forms:
        if _has_other_keys(form):
            yield from _find_keys(form["additionalProperties"], f"{prefix}<name>.", root, described)
        if "items" in form:
            yield from _find_keys(form["items"], prefix.removesuffix(".") + "[].", root, described)


def list_required(form: Schema) -> list[str]:
    return [*form.get("required", ()), *form.get("then", {}).get("required", ())]


def _resolve_forms(schema: Schema, root: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield every form of a value with its reference or ''."""
    outer = schema.get("$ref", "")
    whole = resolve_reference(schema, root)
    for form in [whole] if "type" in whole else whole.get("oneOf", [whole]):
        yield form.get("$ref", outer), resolve_reference(form, root)


def _has_other_keys(form: Schema) -> bool:
    return isinstance(form.get("additionalProperties"), Mapping)


def _format_key(key: _Key, root: Schema) -> str:
    examples = key.schema.get("examples", ())
    example = f" Example: {_format_code(examples[0])}." if examples else ""
    kind = f"{_format_type(key.schema, root)}, {_format_default(key)}"
    return f"- **`{key.name}`** ({kind}): {key.schema['description']}{example}"


def _format_default(key: _Key) -> str:
    if key.required:
        return "required"
    default = key.schema.get("default", "")
    return "optional" if default == "" else f"default {_format_code(default)}"


def _format_type(schema: Schema, root: Schema) -> str:
    texts = [_format_form(form, root) for _, form in _resolve_forms(schema, root)]
    return " or ".join(dict.fromkeys(texts))


def _format_form(form: Schema, root: Schema) -> str:
    if "enum" in form or "const" in form:
        return " or ".join(_format_code(value) for value in form.get("enum", [form.get("const")]))
    types = [form["type"]] if isinstance(form["type"], str) else form["type"]
    text = " or ".join(_TYPES[each] for each in types)
    if form["type"] == "array":
        text += f" ({_format_type(form['items'], root)})"
    return text + _format_limits(form)


def _format_limits(form: Schema) -> str:
    """Return the limits of a number. The limits of 32-bit integers are not shown."""
    least, most = form.get("minimum"), form.get("maximum", LARGE)
    if most >= LARGE:
        return "" if least is None else f" ≥ {least}"
    return f" ≤ {most}" if least is None else f" from {least} to {most}"


def _format_code(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{text}`"


LARGE = 2**31 - 1
