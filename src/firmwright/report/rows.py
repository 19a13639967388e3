"""The rows of a build's table, as its last stage keeps them: showing them reads nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from firmwright.errors import UserError

GOOD, WARNING = "green", "bold yellow"

Part = tuple[str, str]
"""A text and its style on a terminal, '' for none."""


@dataclass(frozen=True)
class Row:
    """A row of the table: what it is about, and what it says."""

    label: str
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)


def make_row(label: str, *parts: str | Part) -> Row:
    """Return a row of texts, each with its style or plain."""
    return Row(label, tuple((part, "") if isinstance(part, str) else part for part in parts))


def read_rows(path: Path) -> list[Row]:
    """Read rows back; UserError for a damaged file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Row])
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: damaged: {error}; remove it and build again") from None
