"""The JSON files between stages."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec

from firmwright.ir.records import encode_record


@dataclass(frozen=True)
class Inner:
    a: int = 1
    unset: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class Outer:
    inner: Inner
    rows: tuple[Inner, ...] = ()


def test_defaults_of_a_decoded_record_are_written() -> None:
    record = msgspec.convert({"inner": {}, "rows": [{}, {"a": 2, "unset": "set"}]}, Outer)
    assert json.loads(encode_record(record)) == {
        "inner": {"a": 1},
        "rows": [{"a": 1}, {"a": 2, "unset": "set"}],
    }
