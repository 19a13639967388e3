"""Writes resolved recipes with the origin of each value.

An origin is a line of a file, the command line, or a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from firmwright.documents.chain import Chain, Layers, read_chain
from firmwright.documents.merge import Node, to_plain
from firmwright.documents.schema_check import Schema
from firmwright.documents.yaml_text import (
    Pointer,
    Position,
    format_pointer,
    get_value,
    list_leaves,
    write_yaml,
)
from firmwright.recipe.recipe import Recipe
from firmwright.recipe.schema import load_schema, rewrite_data

DEFAULT = "default"
LONGEST_LINE, LONGEST_COLUMN = 100, 60
"""Limits in characters: a list on one line, and the values before aligned comments."""


@dataclass(frozen=True)
class Origins:
    """The complete data of a recipe, and the chain of files that contains its values."""

    data: Mapping[str, Any]
    chain: Chain

    def find(self, pointer: Pointer) -> str:
        """Return the origin of a value: ``base.yaml:4``, ``command line`` or ``default``."""
        stated = self.find_stated(pointer)
        if stated is None:
            return DEFAULT
        return format_origin(self.chain.document.positions[stated])

    def find_stated(self, pointer: Pointer) -> Pointer | None:
        """Return the key that states a value in the files, or None if no file states the value.

        For a model that is stated as a path, the key of ``model.path`` is ``model``.
        """
        positions, above = self.chain.document.positions, pointer[:-1]
        if pointer in positions:
            return pointer
        is_short = above in positions and not isinstance(get(self.chain.root, above), dict)
        return above if is_short and pointer[-1] == "path" else None

    def list_history(self, pointer: Pointer) -> list[tuple[str, Any]]:
        """Return the values of a key with their origins.

        The last value is used. None is a ``null`` that removed the key. The list is empty if the
        key has no value.
        """
        key_pointer = self.find_stated(pointer)
        removed = self.chain.removed.get(pointer)
        node = removed if key_pointer is None else find_node(self.chain.root, key_pointer)
        stated = (*node.earlier, node) if node is not None else ()
        history = [(format_origin(each.position), to_plain(each)) for each in stated]
        now = get_value(self.data, pointer)
        is_default = now is not None and (not history or history[-1][1] is None)
        return [*history, (DEFAULT, now)] if is_default else history


def read_origins(layers: Layers, data: Mapping[str, Any]) -> Origins:
    kept = drop_empty({key: remove_supplied((key,), value) for key, value in data.items()})
    order = [*load_schema()["properties"]]
    ordered = sorted(kept, key=lambda key: order.index(key) if key in order else len(order))
    return Origins({key: kept[key] for key in ordered}, read_chain(layers))


def remove_supplied(pointer: Pointer, value: Any) -> Any:
    """Return a value without the completed parts that are not always valid in a recipe."""
    if isinstance(value, dict):
        return {key: remove_supplied((*pointer, key), part) for key, part in value.items()}
    return None if (pointer, value) in SUPPLIED else value


def format_origin(position: Position) -> str:
    return f"{position.file}:{position.line}" if position.line else position.file


def find_node(root: Node, pointer: Pointer) -> Node | None:
    """Return the node of a key, or None if no file states the key."""
    node: Node | None = root
    for part in pointer:
        is_mapping = node is not None and isinstance(node.value, dict)
        node = node.value.get(part) if node is not None and is_mapping else None
    return node


def get(root: Node, pointer: Pointer) -> Any:
    node = find_node(root, pointer)
    return None if node is None else node.value


def format_recipe(origins: Origins) -> str:
    """Return the recipe as YAML, with the origin of each value in a comment on the value's line."""
    lines = list(format_lines(origins, origins.data, (), ""))
    width = min(max((len(text) for text, _ in lines), default=0), LONGEST_COLUMN)
    return "\n".join(f"{text:<{width}}  # {note}" if note else text for text, note in lines)


def format_lines(
    origins: Origins, data: Any, pointer: Pointer, indent: str
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a mapping's keys or of a list's items, and the origins of the values."""
    parts = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in parts:
        key_pointer = (*pointer, key)
        head = f"{indent}-" if isinstance(key, int) else f"{indent}{format_scalar(key)}:"
        if not value or not isinstance(value, dict | list) or is_flat(value):
            yield f"{head} {format_scalar(value)}", origins.find(key_pointer)
            continue
        inner = f"{indent}  "
        lines = format_lines(origins, value, key_pointer, inner)
        if isinstance(key, int):  # the first line of an item follows its dash
            text, note = next(lines)
            yield f"{head} {text[len(inner) :]}", note
        else:
            yield head, ""
        yield from lines


def is_flat(value: Any) -> bool:
    scalars = isinstance(value, list) and not any(isinstance(v, dict | list) for v in value)
    return scalars and len(format_scalar(value)) < LONGEST_LINE


def format_scalar(value: Any) -> str:
    text = write_yaml([value], default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.strip()[1:-1]


def format_history(origins: Origins, pointer: Pointer) -> str:
    """Return a key with its value, and lines for all values that the key had.

    A mapping has a paragraph for each value. The text is empty without values.
    """
    value = get_value(origins.data, pointer)
    if isinstance(value, dict) and value:
        return "\n".join(format_history(origins, (*pointer, key)) for key in value)
    history = origins.list_history(pointer)
    width = max((len(origin) for origin, _ in history), default=0)
    lines = [f"{format_pointer(pointer)}: {format_scalar(value)}"]
    lines += [f"  {origin:<{width}}  {format_scalar(value)}" for origin, value in history]
    return "\n".join(lines) if history else ""


def format_difference(before: Origins, after: Origins) -> list[str]:
    """Return a line for each value that differs in two recipes."""
    old, new = dict(list_leaves(before.data)), dict(list_leaves(after.data))
    lines = []
    for pointer in sorted({*old, *new}, key=format_pointer):
        if old.get(pointer) != new.get(pointer):
            sides = ((old, before), (new, after))
            shown = [
                f"{format_scalar(values[pointer])} ({origins.find(pointer)})"
                if pointer in values
                else "nothing"
                for values, origins in sides
            ]
            lines.append(f"{format_pointer(pointer)}: {' -> '.join(shown)}")
    return lines


def serialize(recipe: Recipe) -> str:
    """Return a recipe's YAML with the values of the command line, sorted, without comments.

    Defaults of the schema are omitted. Only the file name of each absolute path stays.
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
    """Return None for a default value, unless readers need the value."""
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
