"""Reads values of the command line: ``budget.flash=64KiB``, ``cflags+=["-DLOG"]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from firmwright.documents.document import Document
from firmwright.documents.yaml_text import Pointer, Position, format_pointer, read_yaml
from firmwright.errors import Diagnostic, DiagnosticError

COMMAND_LINE = "command line"
"""The file name for values of the command line."""

_PART = re.compile(r"""\.?(?:\[(['"])(?P<quoted>.*?)\1\]|(?P<plain>[^.\[\]'"]+))""")


def parse_key(key: str) -> Pointer:
    """Return the pointer of a key such as ``run.inputs['input.1']``, ``cflags+`` or ``+cflags``.

    A `+` at the start or the end belongs to the last part. Raises ValueError for other forms.
    """
    before = "+" if key.startswith("+") else ""
    after = "+" if key.endswith("+") and not before else ""
    text = key[len(before) : len(key) - len(after)]
    parts: list[str] = []
    start = 0
    while start < len(text):
        match = _PART.match(text, start)
        if match is None or (not start and text.startswith(".")):
            raise ValueError(
                f"not a key: {key!r}; write keys as run.samples or inputs['a.b'].shape"
            )
        parts.append(match["plain"] if match["quoted"] is None else match["quoted"])
        start = match.end()
    if not parts:
        raise ValueError(f"not a key: {key!r}; write keys as run.samples or inputs['a.b'].shape")
    return (*parts[:-1], f"{before}{parts[-1]}{after}")


def read_values(overrides: Mapping[str, str]) -> tuple[Document, list[Diagnostic]]:
    """Return a document with the YAML values of these keys, and its errors."""
    findings: list[Diagnostic] = []
    positions: dict[Pointer, Position] = {(): make_position(0)}
    data: dict[str, Any] = {}
    for number, (key, text) in enumerate(overrides.items(), 1):
        try:
            pointer = parse_key(key)
            value, inner_positions, diagnostics = read_yaml(text, COMMAND_LINE)
        except ValueError as error:
            findings.append(Diagnostic(COMMAND_LINE, 0, number, str(error)))
            continue
        except DiagnosticError as error:
            diagnostics = error.diagnostics
        if diagnostics:
            name = format_pointer(pointer)
            findings += [
                Diagnostic(COMMAND_LINE, 0, number, f"{name}: {each.message}")
                for each in diagnostics
            ]
            continue
        if not put(data, pointer, value):
            name = format_pointer(pointer)
            message = f"{name}: another value of the command line sets it, or a part of it"
            findings.append(Diagnostic(COMMAND_LINE, 0, number, message))
            continue
        for end in range(1, len(pointer)):
            positions.setdefault(pointer[:end], make_position(number))
        for inner, position in inner_positions.items():
            positions[(*pointer, *inner)] = make_position(number, position.source_text)
    return Document(COMMAND_LINE, data, positions), findings


def make_position(number: int, text: str = "") -> Position:
    """Return the position of the n-th value, without a line number."""
    return Position(0, number, 0, number, text, COMMAND_LINE)


def put(data: dict[str, Any], pointer: Pointer, value: Any) -> bool:
    """Write a value into nested mappings. Return whether the key had no value."""
    *parents, last = pointer
    holder: Any = data
    for parent in parents:
        holder = holder.setdefault(parent, {})
        if not isinstance(holder, dict):
            return False
    if last in holder:
        return False
    holder[last] = value
    return True
