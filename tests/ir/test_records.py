"""The JSON files between stages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import msgspec
import numpy as np

from firmwright.ir.array_files import read_arrays, write_arrays
from firmwright.ir.records import encode_record


@dataclass(frozen=True, slots=True)
class Inner:
    a: int = 1
    unset: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    rows: tuple[Inner, ...] = ()


def test_defaults_of_a_decoded_record_are_written() -> None:
    record = msgspec.convert({"inner": {}, "rows": [{}, {"a": 2, "unset": "set"}]}, Outer)
    assert json.loads(encode_record(record)) == {
        "inner": {"a": 1},
        "rows": [{"a": 1}, {"a": 2, "unset": "set"}],
    }


def test_arrays_are_written_alike_by_all_pythons(tmp_path: Path) -> None:
    """If the size is unknown, Python 3.11.2 and 3.11.7 write different first bytes of a file."""
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.ones(2, ml_dtypes.bfloat16)}
    write_arrays(tmp_path / "arrays.npz", arrays)
    begin = (tmp_path / "arrays.npz").read_bytes()[:30]
    assert int.from_bytes(begin[4:6], "little") == 20  # the version of ZIP that readers need
    assert begin[28:30] == b"\0\0"  # no further fields
    found = read_arrays(tmp_path / "arrays.npz")
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    assert found["b"].dtype == ml_dtypes.bfloat16
