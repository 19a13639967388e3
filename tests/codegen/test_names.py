"""Each tensor name becomes a different C identifier."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from firmwright.codegen.names import KEYWORDS, c_identifier, escape_comment, make_unique_identifiers


@given(st.text())
def test_any_name_becomes_an_identifier(name: str) -> None:
    identifier = c_identifier(name)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", identifier)
    assert identifier not in KEYWORDS


@given(st.lists(st.text(max_size=8), max_size=20))
def test_names_that_collide_get_numbers(names: list[str]) -> None:
    identifiers = make_unique_identifiers(names)
    assert len({i.lower() for i in identifiers}) == len(names)


def test_good_names_stay() -> None:
    names = ["input_1", "dense/BiasAdd;resource", "for", "8bit", "a.b", "a_b", "INPUT"]
    assert make_unique_identifiers(names) == [
        "input_1", "dense_BiasAdd_resource", "for_", "_8bit", "a_b", "a_b_2", "INPUT_",
    ]  # fmt: skip


@given(st.text())
def test_nothing_leaves_a_comment(text: str) -> None:
    shown = escape_comment(text)
    assert "*/" not in shown
    assert "/*" not in shown
    assert "\n" not in shown
    assert "??" not in shown  # "??/" at the end of a line is a backslash


def test_question_marks_in_a_row_are_no_trigraph() -> None:
    assert escape_comment("a???/") == "a? ? ?/"
