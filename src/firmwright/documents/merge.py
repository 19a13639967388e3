"""Merges documents that extend one another, value by value.

Mappings merge by key. Any other value replaces the earlier value. ``null`` removes a key, ``key+``
appends to a list and ``+key`` prepends to a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from firmwright.documents.schema_check import describe
from firmwright.documents.yaml_text import Pointer, Position, format_pointer
from firmwright.errors import Diagnostic


@dataclass(frozen=True)
class Node:
    """A value with its position.

    A mapping contains nodes by key, and a list contains nodes. ``earlier`` has the values that this
    value replaced, in order.
    """

    value: Any
    position: Position
    earlier: tuple[Node, ...] = ()


@dataclass
class Merger:
    """Merges mappings. Collects the errors, and the ``null`` of each removed key.

    A ``null`` of the first document removes no key. The value stays null if ``keeps_null`` is set,
    and the schema checks the value.
    """

    keeps_null: bool = True
    findings: list[Diagnostic] = field(default_factory=list)
    removed: dict[Pointer, Node] = field(default_factory=dict)

    def merge(self, base: Node, over: Node, pointer: Pointer = ()) -> Node:
        """Return the mapping ``base`` with the keys of the mapping ``over``."""
        merged: dict[str, Node] = dict(base.value)
        for key, node in sorted(over.value.items(), key=lambda item: is_joined(item[0])):
            name = (key[1:] if key.startswith("+") else key[:-1]) if is_joined(key) else key
            inner = (*pointer, name)
            old = merged.get(name)
            if not pointer and name != name.strip("+"):
                self.report(node, (key,), "unknown key; write `key+` or `+key` to add to a list")
            elif is_joined(key):
                merged[name] = self.join(old, node, inner, key.startswith("+"))
            elif node.value is None and not self.keeps_null:
                merged.pop(name, None)
                self.remove(old, node, inner)
            else:
                merged[name] = self.replace(old, node, inner)
        return replace(over, value=merged, earlier=base.earlier)

    def remove(self, old: Node | None, node: Node, pointer: Pointer) -> None:
        """Record that the ``null`` in ``node`` removes a value and all values in it."""
        parts = walk(old, pointer) if old is not None else ()
        self.removed[pointer] = self.follow(old, node, pointer)
        self.removed.update({inner: follow(part, node) for inner, part in parts})

    def replace(self, old: Node | None, node: Node, pointer: Pointer) -> Node:
        """Return the merge of two mappings, or the later of two other values."""
        if old is not None and {type(old.value), type(node.value)} == {dict, list}:
            self.report_kinds(old, node, pointer, "cannot replace")
        if isinstance(node.value, dict):
            is_merged = old is not None and isinstance(old.value, dict)
            start = old if old is not None and is_merged else replace(node, value={})
            node = self.merge(start, node, pointer)
            return node if is_merged else self.follow(old, node, pointer)
        return self.follow(old, node, pointer)

    def follow(self, old: Node | None, node: Node, pointer: Pointer) -> Node:
        """Return a node with its earlier value, or with the earlier ``null``."""
        return follow(old if old is not None else self.removed.get(pointer), node)

    def join(self, old: Node | None, node: Node, pointer: Pointer, before: bool) -> Node:
        """Return a list with the items of ``node`` after or before the items of ``old``."""
        if not isinstance(node.value, list):
            kind = describe(to_plain(node))
            self.report(node, pointer, f"expected a list of items to add, found {kind}")
            return node
        if old is not None and not isinstance(old.value, list):
            self.report_kinds(old, node, pointer, "cannot be added to")
            return node
        items = old.value if old is not None else []
        joined = [*node.value, *items] if before else [*items, *node.value]
        return self.follow(old, replace(node, value=joined), pointer)

    def report_kinds(self, old: Node, node: Node, pointer: Pointer, problem: str) -> None:
        later, earlier = describe(to_plain(node)), describe(to_plain(old))
        remedy = f"a file between the two can remove it by `{pointer[-1]}: null`"
        message = f"{later} {problem} {earlier} of {old.position}; {remedy}"
        self.report(node, pointer, message)

    def report(self, node: Node, pointer: Pointer, message: str) -> None:
        inner = node.position
        text = f"{format_pointer(pointer)}: {message}"
        self.findings.append(Diagnostic(inner.file, inner.line, inner.column, text))


def is_joined(key: str) -> bool:
    """Return whether a key adds to a list: ``key+`` or ``+key``."""
    return len(key) > 1 and (key.startswith("+") != key.endswith("+"))


def follow(old: Node | None, node: Node) -> Node:
    if old is None:
        return node
    return replace(node, earlier=(*old.earlier, replace(old, earlier=())))


def make_node(data: Any, positions: Mapping[Pointer, Position], pointer: Pointer = ()) -> Node:
    value = data
    if isinstance(data, dict):
        value = {key: make_node(part, positions, (*pointer, key)) for key, part in data.items()}
    elif isinstance(data, list):
        value = [make_node(part, positions, (*pointer, i)) for i, part in enumerate(data)]
    return Node(value, positions[pointer])


def to_plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: to_plain(part) for key, part in node.value.items()}
    if isinstance(node.value, list):
        return [to_plain(part) for part in node.value]
    return node.value


def walk(node: Node, pointer: Pointer = ()) -> Iterator[tuple[Pointer, Node]]:
    yield pointer, node
    parts: Any = ()
    if isinstance(node.value, dict):
        parts = node.value.items()
    elif isinstance(node.value, list):
        parts = enumerate(node.value)
    for key, part in parts:
        yield from walk(part, (*pointer, key))
