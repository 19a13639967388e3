"""Reads and writes the JSON files between stages, each of which contains one dataclass.

The dataclass defines the schema of its file: :func:`build_schema` derives the JSON schema from the
dataclass. Reading checks the type of every value. The dataclasses have slots. msgspec omits fields
with default values if the dataclass has no slots.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firmwright.errors import UserError, to_printable

Record = TypeVar("Record")
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def write_record(path: Path, record: object) -> None:
    """Write a dataclass as indented JSON. Equal values produce equal bytes."""
    path.write_bytes(encode_record(record))


def encode_record(record: object) -> bytes:
    """Return a dataclass or plain data as indented JSON. Unset fields are omitted.

    The text has no control characters that could control a terminal.
    """
    text = msgspec.json.format(msgspec.json.encode(record), indent=1).decode()
    return f"{to_printable(text)}\n".encode()


def format_record(record: object, schema: str) -> str:
    """Return a record as JSON that names its schema, a file in ``firmwright/report``."""
    return encode_record({"$schema": schema, **to_plain(record)}).decode()


def to_plain(record: object) -> Any:
    return msgspec.to_builtins(record)


def read_record(path: Path, kind: type[Record]) -> Record:
    """Read a dataclass from a file. Raises UserError if the file does not match the dataclass."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise UserError(
            f"{path}: damaged: {error}; remove it (`doit clean`) and build again"
        ) from None


def find_wrong_field(record: Any, kind: type) -> str:
    """Return the field of a dataclass whose value has a wrong type, or '' if all types match.

    Python code of the user creates these dataclasses. Without this check, their files could be
    written but not read.
    """
    try:
        msgspec.convert(msgspec.to_builtins(record), kind)
    except msgspec.ValidationError as error:
        message, _, location = str(error).partition(" - at `$.")
        location = location.rstrip("`")
        return f"{location} is {follow(record, location)!r}; {message[:1].lower()}{message[1:]}"
    except TypeError as error:  # a type of another package, such as a numpy number
        names = (f.name for f in fields(kind) if not can_write(getattr(record, f.name)))
        return f"{next(names, '')}: {error}"
    return ""


def can_write(value: object) -> bool:
    try:
        msgspec.to_builtins(value)
    except TypeError:
        return False
    return True


def follow(record: Any, location: str) -> Any:
    """Return the value at a path like ``inputs[0].dtype``. A path may lead into a mapping."""
    for part in re.findall(r"\w+", location):
        record = record[int(part)] if part.isdigit() else getattr(record, part)
    return record


def build_schema(kind: type) -> dict[str, Any]:
    return {"$schema": SCHEMA_DIALECT, **msgspec.json.schema(kind)}
