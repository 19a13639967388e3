"""Entries of the shared cache equal protobuf's bytes, and are read by protobuf."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from firmwright.shared_cache.entry import CachedFile, CacheError, Entry, decode, encode
from firmwright.wire_format import write_field

KEY = "0" * 64
MESSAGES = {
    "Digest": [("hash", 1, Field.TYPE_STRING), ("size_bytes", 2, Field.TYPE_INT64)],
    "OutputFile": [
        ("path", 1, Field.TYPE_STRING),
        ("digest", 2, "Digest"),
        ("is_executable", 4, Field.TYPE_BOOL),
        ("contents", 5, Field.TYPE_BYTES),
    ],
    "ActionResult": [
        ("output_files", 2, "OutputFile"),
        ("exit_code", 4, Field.TYPE_INT32),
        ("stdout_raw", 5, Field.TYPE_BYTES),
        ("stderr_digest", 8, "Digest"),
        ("a_double", 100, Field.TYPE_DOUBLE),
        ("a_float", 101, Field.TYPE_FLOAT),
    ],
}
"""Fields of remote_execution.proto, and fields of two wire types that it does not use."""


def make_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="it.proto", package="it", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = Field.LABEL_REPEATED if field == "output_files" else Field.LABEL_OPTIONAL
            described = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                described.type, described.type_name = Field.TYPE_MESSAGE, f".it.{kind}"
            else:
                described.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("it.ActionResult"))


ActionResult = make_class()


def draw_entry(random: Random) -> Entry:
    """Return an entry with lengths and sizes of one byte and of several."""
    files = tuple(
        CachedFile(
            f"{number}/{'ä' * random.choice([1, 40, 9000])}",
            f"{random.getrandbits(256):064x}",
            random.choice([0, 1, 127, 128, random.getrandbits(40)]),
            random.random() < 0.5,
        )
        for number in range(random.choice([0, 1, 5]))
    )
    return Entry(KEY, files, tuple("note" * random.choice([1, 50]) for _ in range(2)))


def read_with_protobuf(data: bytes) -> Any:
    result = ActionResult()
    result.ParseFromString(data)
    return result


@pytest.mark.parametrize("seed", range(20))
def test_protobuf_writes_the_same_bytes(seed: int) -> None:
    entry = draw_entry(Random(seed))
    found = read_with_protobuf(encode(entry))
    files = tuple(
        CachedFile(file.path, file.digest.hash, file.digest.size_bytes, file.is_executable)
        for file in found.output_files
    )
    assert files == entry.files
    assert json.loads(found.stdout_raw)["key"] == KEY
    assert found.SerializeToString(deterministic=True) == encode(entry)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_server_adds_is_passed_over(seed: int) -> None:
    entry = draw_entry(Random(seed))
    result = read_with_protobuf(encode(entry))
    result.exit_code, result.a_double, result.a_float = -1, 0.5, 0.5
    result.stderr_digest.hash = "of nothing"
    for file in result.output_files:
        file.contents = b"\xff"
    assert decode(result.SerializeToString(), KEY) == entry


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_entry_is_refused(seed: int) -> None:
    """A decoded entry always equals the stored entry."""
    random = Random(seed)
    entry = draw_entry(random)
    for _ in range(100):
        data = bytearray(encode(entry))
        place = random.randrange(min(len(data), 300))
        if random.random() < 0.2:
            del data[place : place + random.randrange(1, 20)]
        else:
            data[place] = random.randrange(256)
        with suppress(CacheError):
            assert decode(bytes(data), KEY) == entry


@pytest.mark.parametrize(
    "expected", [b"", b"1", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"key": 1, "notes": 1}']
)
def test_what_says_something_else_is_no_entry(expected: bytes) -> None:
    with pytest.raises(CacheError, match="not an entry"):
        decode(write_field(5, expected), KEY)


@pytest.mark.parametrize(
    "data",
    [
        b"\x2a\x05abcd",  # shorter than its stated length
        b"\x2a",
        b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of more than 64 bits
        b"\x00\x01",  # a field without number
        b"\xf8\xff\xff\xff\xff\x01\x01",  # a number of more than 29 bits
        b"\x2b",  # an obsolete wire type
        b"\x31abc",
        b"\x35abc",
    ],
)
def test_bytes_that_are_no_fields_are_no_entry(data: bytes) -> None:
    whole = encode(draw_entry(Random(0)))
    for broken in (data, whole + data, data + whole):
        with pytest.raises(CacheError):
            decode(broken, KEY)
    with pytest.raises(CacheError, match="not an entry"):
        decode(whole + data, KEY)
