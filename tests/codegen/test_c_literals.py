"""Literals keep every bit of the constants."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firmwright.codegen.c_literals import format_c_float, format_c_value, format_c_values


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_literal_reads_back_as_the_same_bits(value: float) -> None:
    literal = format_c_float(struct.pack(">f", value).hex()).strip("()")
    assert literal.endswith("f")
    assert set(literal) & set(".e"), "without either it would be an integer"
    assert struct.pack(">f", np.float32(literal[:-1])) == struct.pack(">f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_literal_reads_back_as_the_same_bits(value: float) -> None:
    literal = format_c_float(struct.pack(">d", value).hex()).strip("()")
    assert struct.pack(">d", float(literal)) == struct.pack(">d", value)


def test_what_has_no_literal() -> None:
    assert format_c_float(struct.pack(">f", float("inf")).hex()) == "INFINITY"
    assert format_c_float(struct.pack(">f", float("-inf")).hex()) == "(-INFINITY)"
    assert format_c_float(struct.pack(">f", float("nan")).hex()) == "NAN"
    assert format_c_value(np.int32(-(2**31))) == "INT32_MIN"
    assert format_c_value(np.int64(-(2**63))) == "INT64_MIN"
    assert format_c_values(np.array([1, 2**64 - 1], "uint64")).split() == ["1,", f"{2**64 - 1}U"]


@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.just(-(2**31)), max_size=60))
def test_lines_of_values_are_as_full_as_they_can_be(values: list[int]) -> None:
    lines = format_c_values(np.array(values, np.int32)).splitlines()
    read = "".join(lines).replace("INT32_MIN", str(-(2**31))).split(",") if values else []
    assert [int(text) for text in read] == values
    assert all(line.startswith("    ") and len(line) <= 96 for line in lines)
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split()[0]) > 96
