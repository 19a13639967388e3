"""Reads and writes the fastest variants of a recipe's layers that a search found.

The file ``<recipe>.tuned`` is next to the recipe, for version control. The file is YAML, and its
schema is ``recipes/tuned.schema.json``. The file has a part for each platform, because variants
differ.
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
# The fastest C of each layer. `firmwright tune` writes this file, builds read it.
version: {version}
platforms:
"""


@dataclass(frozen=True)
class TunedLayer:
    """A layer's variant and default variant, and the counts of both per inference.

    The cycles are None if the platform has no cycle table.
    """

    variant: str
    instructions: int
    default: str
    default_instructions: int
    cycles: int | None = None
    default_cycles: int | None = None


@dataclass(frozen=True)
class TunedNetwork:
    """The result for a platform: toolchain, target, network digest, and each layer's variant."""

    toolchain: str
    target: str
    network: str
    layers: Mapping[str, TunedLayer]


@dataclass(frozen=True)
class TunedFile:
    """The network of each platform in a file, and the document, which contains the positions."""

    document: Document
    platforms: Mapping[str, TunedNetwork]


def read_tuned(path: Path) -> TunedFile:
    """Return the content of a tuned file.

    Raises DiagnosticError with all values that do not match the schema.
    """
    document = load_document(path, load_schema("tuned"))
    data: Mapping[str, Any] = document.data["platforms"]
    platforms = msgspec.convert(data, dict[str, TunedNetwork])
    return TunedFile(document, platforms)


def write_tuned(path: Path, platforms: Mapping[str, TunedNetwork]) -> bool:
    return write_whole(path, format_tuned(platforms).encode())


def format_tuned(platforms: Mapping[str, TunedNetwork]) -> str:
    lines = [HEAD.format(version=FORMAT_VERSION).rstrip("\n")]
    for name, tuned_network in sorted(platforms.items()):
        lines += [
            f"  {quote(name)}:",
            f"    toolchain: {quote(tuned_network.toolchain)}",
            f"    target: {quote(tuned_network.target)}",
            f"    network: {quote(tuned_network.network)}",
            "    layers:" if tuned_network.layers else "    layers: {}",
        ]
        for layer, tuned in tuned_network.layers.items():
            lines += [
                f"      {quote(layer)}:",
                f"        variant: {quote(tuned.variant)}",
                f"        instructions: {tuned.instructions}",
                f"        default: {quote(tuned.default)}",
                f"        default_instructions: {tuned.default_instructions}",
            ]
            if tuned.cycles is not None:
                lines.append(f"        cycles: {tuned.cycles}")
                lines.append(f"        default_cycles: {tuned.default_cycles}")
    return "\n".join(lines) + "\n"


def quote(text: str) -> str:
    """Return text in a form that YAML always reads unchanged."""
    return to_printable(msgspec.json.encode(text).decode())
