"""Reads and writes protobuf messages without the library protobuf, whose import needs 25 ms.

A field is a number and a value. The value is an integer or bytes: a text or a nested message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Protobuf's wire types."""

LARGEST_NUMBER = (1 << 29) - 1
"""The maximum number of a field."""

Span = tuple[int, int]
"""The beginning and the end of bytes in a file."""


class NotProtobufError(ValueError):
    """Raised if bytes are not a sequence of protobuf fields."""


def find_parts(stream: BinaryIO, span: Span, number: int) -> Iterator[Span]:
    """Yield the position of each field with this number in the message at ``span``."""
    for field, value in find_fields(stream, span):
        if field == number and isinstance(value, tuple):
            yield value


def find_fields(stream: BinaryIO, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Yield the number and the value of every field of the message at ``span``.

    The value of bytes is their position. Numbers of a fixed size are skipped. Raises
    NotProtobufError if the message is invalid.
    """
    start, end = span
    while start < end:
        stream.seek(start)
        number, kind = divmod(read_varint(stream), 8)
        if not 0 < number <= LARGEST_NUMBER:
            raise NotProtobufError
        if kind in (VARINT, LENGTH):
            value = read_varint(stream)
            start = stream.tell()
        elif kind in (FIXED32, FIXED64):
            start = stream.tell() + (4 if kind == FIXED32 else 8)
        else:
            raise NotProtobufError
        if kind == LENGTH:
            start += value
        if start > end:
            raise NotProtobufError
        if kind == VARINT:
            yield number, value
        elif kind == LENGTH:
            yield number, (start - value, start)


def read_varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = stream.read(1)
        if not byte:
            raise NotProtobufError
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise NotProtobufError


def write_field(number: int, value: int | bytes) -> bytes:
    """Return a field, or no bytes for the default values of readers: 0 and empty values."""
    if not value:
        return b""
    if isinstance(value, int):
        return write_varint(number << 3 | VARINT) + write_varint(value)
    return write_varint(number << 3 | LENGTH) + write_varint(len(value)) + value


def write_varint(value: int) -> bytes:
    """Return a non-negative number in groups of 7 bits, the lowest group first."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups[-1] |= 0x80
        groups.append(value & 0x7F)
    return bytes(groups)
