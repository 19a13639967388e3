"""Stores the rows of a build's table, so that a command can show them again without other files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firmwright.errors import UserError

GOOD, WARNING = "green", "bold yellow"

Part = tuple[str, str]
"""A text and its style on a terminal; '' means no style."""


@dataclass(frozen=True)
class Row:
    """A row of the table: its subject and its text."""

    label: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)


def make_row(label: str, *parts: str | Part) -> Row:
    return Row(label, tuple((part, "") if isinstance(part, str) else part for part in parts))


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file. Raises UserError if the file is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Row])
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: damaged: {error}; remove it and build again") from None


def align_columns(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Return a line for each row. ``sides`` has ``<`` or ``>`` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*row).rstrip() for row in rows]
