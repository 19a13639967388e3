"""Compiled templates are reused, and never mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import jinja2
import pytest

from firmwright.codegen.names import escape_comment
from firmwright.codegen.templates import new_environment

TEXTS = {"name": "{{ x }}, {{ 'a' | upper }}\n"}


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "firmwright/templates"


def render(environment: jinja2.Environment) -> str:
    return environment.get_template("name").render(x="<")


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("compiled again")


def test_a_kept_template_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert render(new_environment(TEXTS.get)) == "<, A\n"
    again = new_environment(TEXTS.get)
    monkeypatch.setattr(again, "compile", refuse)
    assert render(again) == "<, A\n"


def test_another_text_or_setting_or_filter_is_another_template(kept: Path) -> None:
    assert render(new_environment(TEXTS.get)) == "<, A\n"
    assert render(new_environment(TEXTS.get, escapes=True)) == "&lt;, A\n"
    assert render(new_environment({"name": "{{ x }}!"}.get)) == "<!"
    filtered = new_environment(TEXTS.get)
    filtered.filters["upper"] = escape_comment
    assert render(filtered) == "<, a\n"
    assert len(list(kept.iterdir())) == 4


def test_a_damaged_template_is_compiled_again(kept: Path) -> None:
    render(new_environment(TEXTS.get))
    (file,) = kept.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-9] + bytes(byte ^ 1 for byte in whole[-9:]))
    assert render(new_environment(TEXTS.get)) == "<, A\n"
    assert file.read_bytes() == whole


def test_where_nothing_can_be_kept_each_build_compiles(kept: Path) -> None:
    kept.parent.write_bytes(b"")  # a file in place of the folder
    assert render(new_environment(TEXTS.get)) == "<, A\n"
