"""Read and write the JSON files between stages, each one dataclass.

Every file names its schema by being one: :func:`build_schema` derives the JSON schema from the
dataclass, and reading checks every value's type against it. The dataclasses have slots: of others
that msgspec has read, it would not write a field again that has its default.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile, ZipInfo

import ml_dtypes
import msgspec
import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError, to_printable

Record = TypeVar("Record")
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def write_record(path: Path, record: object) -> None:
    """Write a dataclass as indented JSON: the same bytes for the same value."""
    path.write_bytes(encode_record(record))


def encode_record(record: object) -> bytes:
    """Return a dataclass, or plain data, as indented JSON, with every field that is set.

    A terminal that shows it is not controlled by it.
    """
    text = msgspec.json.format(msgspec.json.encode(record), indent=1).decode()
    return f"{to_printable(text)}\n".encode()


def to_plain(record: object) -> Any:
    """Return a dataclass as dictionaries, with every field that is set."""
    return msgspec.to_builtins(record)


def read_record(path: Path, kind: type[Record]) -> Record:
    """Read a dataclass back; UserError if the file is not of that kind."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise UserError(
            f"{path}: damaged: {error}; remove it (`doit clean`) and build again"
        ) from None


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays as an uncompressed ``.npz``: the same bytes for the same arrays.

    ``numpy.savez`` leaves the sizes open at first, which each Python writes in its own way.
    """
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), content.getvalue())


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read such a file back; numpy stores bfloat16, a type of another package, as mere bytes."""
    with np.load(path, allow_pickle=False) as stored:
        return {n: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for n, a in stored.items()}


def find_wrong_field(record: Any, kind: type) -> str:
    """Return which field of a dataclass that a user's Python made is not of its type: '' for none.

    Its file would be written, and could not be read.
    """
    try:
        msgspec.convert(msgspec.to_builtins(record), kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        place = place.rstrip("`")
        return f"{place} is {follow(record, place)!r}; {message[:1].lower()}{message[1:]}"
    except TypeError as error:  # of another package, as numpy's numbers
        names = (f.name for f in fields(kind) if not can_write(getattr(record, f.name)))
        return f"{next(names, '')}: {error}"
    return ""


def can_write(value: object) -> bool:
    try:
        msgspec.to_builtins(value)
    except TypeError:
        return False
    return True


def follow(record: Any, place: str) -> Any:
    """Return what is at a place like ``inputs[0].dtype``; of a mapping, the mapping."""
    for word in re.findall(r"\w+", place):
        record = record[int(word)] if word.isdigit() else getattr(record, word)
    return record


def build_schema(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a record's file."""
    return {"$schema": SCHEMA_DIALECT, **msgspec.json.schema(kind)}
