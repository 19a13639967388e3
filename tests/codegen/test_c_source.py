"""What the generated functions look like."""

from __future__ import annotations

from firmwright.codegen.c_source import clean_up_c, drop_needless_parentheses


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
