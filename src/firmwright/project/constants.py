"""Writes a network's constants as text in C, or as bytes that the assembler includes.

A compiler needs about 500 bytes of memory for each number of a C array. A ResNet-18 in float, which
has 12 million numbers, would need 5.8 GiB. Readers do not need so many numbers as text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from firmwright.codegen.templates import TEMPLATE_SUFFIX

LARGE = 8 * 1024**2
"""The minimum number of bytes of constants that are included as bytes."""

TEXT_TEMPLATE = f"network/weights.c{TEMPLATE_SUFFIX}"
BYTES_TEMPLATE = f"network/weights.S{TEMPLATE_SUFFIX}"
BYTES_FILE = "weights.bin"

NamedArrays = Sequence[tuple[str, npt.NDArray[Any]]]


@dataclass(frozen=True)
class IncludedArray:
    """The position of an array in the file of all bytes."""

    name: str
    offset: int
    bytes: int


def are_large(weights: Mapping[str, npt.NDArray[Any]]) -> bool:
    return sum(array.nbytes for array in weights.values()) >= LARGE


def pack_arrays(arrays: NamedArrays) -> bytes:
    """Return the bytes of all arrays, one after the other, little-endian."""
    return b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for _, a in arrays)


def list_included(arrays: NamedArrays) -> dict[str, Any]:
    included, offset = [], 0
    for name, array in arrays:
        included.append(IncludedArray(name, offset, array.nbytes))
        offset += array.nbytes
    digest = hashlib.sha256(pack_arrays(arrays)).hexdigest()
    return {"included": included, "included_sha256": digest}


def write_bytes(path: Path, arrays: NamedArrays) -> None:
    path.write_bytes(pack_arrays(arrays))
