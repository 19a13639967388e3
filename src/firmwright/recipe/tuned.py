"""The ways of a recipe's layers, as a search found them fastest.

A file ``<recipe>.tuned`` beside the recipe, for version control: YAML, whose schema is
``recipes/tuned.schema.json``. It has a part for each platform, because each has its own ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from firmwright.documents.document import Document, load_document
from firmwright.documents.whole_file import write_whole
from firmwright.errors import to_printable
from firmwright.recipe.schema import load_schema

FORMAT_VERSION = 1

HEAD = """\
# The C of each layer, by counted instructions. `firmwright tune` writes this file, builds read it.
version: {version}
platforms:
"""


@dataclass(frozen=True)
class TunedLayer:
    """A layer's way and the usual one, with the instructions of one inference in each."""

    way: str
    instructions: int
    usual: str
    usual_instructions: int


@dataclass(frozen=True)
class TunedNetwork:
    """What was found on a platform: for which network, built how, and the ways of its layers."""

    toolchain: str
    target: str
    network: str
    layers: Mapping[str, TunedLayer]


@dataclass(frozen=True)
class TunedFile:
    """The networks of a file by their platforms, and the file itself, to name places in it."""

    document: Document
    platforms: Mapping[str, TunedNetwork]


def read_tuned(path: Path) -> TunedFile:
    """Read a file of ways; DiagnosticError with all that does not fit its schema."""
    document = load_document(path, load_schema("tuned"))
    found: Mapping[str, Any] = document.data["platforms"]
    platforms = msgspec.convert(found, dict[str, TunedNetwork])
    return TunedFile(document, platforms)


def write_tuned(path: Path, platforms: Mapping[str, TunedNetwork]) -> bool:
    """Write a file of ways, whole or not at all; tell whether it is another than before."""
    return write_whole(path, format_tuned(platforms).encode())


def format_tuned(platforms: Mapping[str, TunedNetwork]) -> str:
    """Return the text of a file of ways, the platforms in order of their names."""
    lines = [HEAD.format(version=FORMAT_VERSION).rstrip("\n")]
    for name, found in sorted(platforms.items()):
        lines += [
            f"  {quote(name)}:",
            f"    toolchain: {quote(found.toolchain)}",
            f"    target: {quote(found.target)}",
            f"    network: {quote(found.network)}",
            "    layers:" if found.layers else "    layers: {}",
        ]
        for layer, tuned in found.layers.items():
            lines += [
                f"      {quote(layer)}:",
                f"        way: {quote(tuned.way)}",
                f"        instructions: {tuned.instructions}",
                f"        usual: {quote(tuned.usual)}",
                f"        usual_instructions: {tuned.usual_instructions}",
            ]
    return "\n".join(lines) + "\n"


def quote(text: str) -> str:
    """Return text as YAML reads it back as text, whatever it looks like."""
    return to_printable(msgspec.json.encode(text).decode())
