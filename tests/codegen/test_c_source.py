"""What the generated functions look like, and that constants keep every bit."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firmwright.codegen.c_source import clean_up_c, drop_needless_parentheses, format_c_float
from firmwright.codegen.templates import format_c_value


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


def test_needless_parentheses_go_and_needed_ones_stay() -> None:
    cases = {
        "x[(a + b)] = (c);": "x[a + b] = c;",
        "y = ((a + b) * c);": "y = (a + b) * c;",
        "y = f((a + b)) + ((c));": "y = f((a + b)) + (c);",
        "if ((a == b)) {": "if (a == b) {",
        "y = (int8_t)(x);": "y = (int8_t)(x);",
    }
    for before, after in cases.items():
        assert drop_needless_parentheses(before) == after


def test_names_and_indentation_are_those_of_written_code() -> None:
    printed = (
        "  int32_t conv2d_nhwc_intermediate_ptr[1];\n"
        "  for (int32_t yy = 0; yy < 25; ++yy) {\n"
        "    conv2d_nhwc_intermediate_ptr[0] = 0;\n"
        "    float v_ = FLOAT_LITERAL_0();\n"
        "    float v__1 = v_;\n"
        "  }"
    )
    assert clean_up_c(printed, ["0.05f"]).splitlines() == [
        "    int32_t conv2d_nhwc;",
        "    for (int32_t yy = 0; yy < 25; ++yy) {",
        "        conv2d_nhwc = 0;",
        "        float value_0 = 0.05f;",
        "        float value_1 = value_0;",
        "    }",
    ]
