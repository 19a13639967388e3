"""Reads and writes the types of a recipe's weights that a search found.

The file ``<recipe>.precision`` is next to the recipe, for version control. The file is YAML, and
its schema is ``recipes/precision.schema.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firmwright.documents.document import Document, load_document
from firmwright.documents.whole_file import write_whole
from firmwright.recipe.schema import load_schema
from firmwright.recipe.tuned import quote

HEAD = """\
# The type of each layer's weights. `firmwright search` writes this file, builds read it.
version: 1
"""


@dataclass(frozen=True)
class LayerPrecision:
    """The type of a layer's weights, their bytes, and the relative error of the outputs.

    The error is the energy of the difference divided by the energy of the outputs, if only this
    layer has weights of this type.
    """

    weights: str
    bytes: int
    error: float


@dataclass(frozen=True)
class Precision:
    """The result of a search: the digest of the network, the limits, and the layer of each name.

    ``flash`` and ``accuracy`` are the limits of the recipe. ``firmware`` is the flash of the
    firmware in bytes. ``loss`` is the lost accuracy in points, or None without labels.
    """

    network: str
    firmware: int
    layers: Mapping[str, LayerPrecision]
    flash: int | None = None
    accuracy: float | None = None
    loss: float | None = None


def read_precision(path: Path) -> tuple[Document, Precision]:
    """Return a precision file and its content.

    Raises DiagnosticError with all values that do not match the schema.
    """
    document = load_document(path, load_schema("precision"))
    return document, msgspec.convert(document.data, Precision)


def write_precision(path: Path, precision: Precision) -> bool:
    return write_whole(path, format_precision(precision).encode())


def format_precision(precision: Precision) -> str:
    lines = [HEAD + f"network: {quote(precision.network)}"]
    for key in ("flash", "accuracy", "firmware", "loss"):
        value = getattr(precision, key)
        if value is not None:
            lines.append(f"{key}: {format_number(value)}")
    lines.append("layers:" if precision.layers else "layers: {}")
    for name, layer in precision.layers.items():
        lines += [
            f"  {quote(name)}:",
            f"    weights: {layer.weights}",
            f"    bytes: {layer.bytes}",
            f"    error: {format_number(layer.error)}",
        ]
    return "\n".join(lines) + "\n"


def format_number(value: float) -> str:
    """Return a number in a form that YAML reads as a number, such as 1.0e-05 instead of 1e-05."""
    mantissa, e, exponent = str(value).partition("e")
    return f"{mantissa}.0{e}{exponent}" if e and "." not in mantissa else str(value)
