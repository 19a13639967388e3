"""Reading a YAML file: cases that a folder of tests/failing cannot contain, locations, defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from firmwright.documents.document import Document, load_document
from firmwright.errors import DiagnosticError

ANYTHING: Mapping[str, Any] = {}


def load(folder: Path, content: str | bytes, schema: Mapping[str, Any] = ANYTHING) -> Document:
    path = folder / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_document(path, schema, shown_as="file.yaml")


def message(folder: Path, content: str | bytes, schema: Mapping[str, Any] = ANYTHING) -> str:
    with pytest.raises(DiagnosticError) as raised:
        load(folder, content, schema)
    return str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(DiagnosticError, match=r"none\.yaml: no such file$"):
        load_document(path, ANYTHING)


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="this is a directory"):
        load_document(tmp_path, ANYTHING)


def test_pipe_without_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    with pytest.raises(
        DiagnosticError, match=r"pipe\.yaml: cannot be read: it is a pipe; name a file$"
    ):
        load_document(path, ANYTHING)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "/dev/null/recipe.yaml"])
def test_path_that_no_file_can_have(path: str) -> None:
    with pytest.raises(DiagnosticError, match="cannot be read"):
        load_document(Path(path), ANYTHING)


def test_fifty_megabytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(50 << 20)
    with pytest.raises(DiagnosticError, match="larger than 1 MiB"):
        load_document(path, ANYTHING)


def test_not_utf8(tmp_path: Path) -> None:
    assert message(tmp_path, b"a: 1\nname: caf\xe9\n") == (
        "file.yaml:2:10: not UTF-8: byte 0xe9; save the file as UTF-8"
    )


def test_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    document = load(tmp_path, b"\xef\xbb\xbfname: x\n")
    assert document.data == {"name": "x"}
    assert str(document.make_diagnostic(("name",), "m")) == "file.yaml:1:7: name: m"


def test_line_ends_of_windows(tmp_path: Path) -> None:
    document = load(tmp_path, b"a: 1\r\nb: two\r\n")
    assert document.data == {"a": 1, "b": "two"}
    assert str(document.make_diagnostic(("b",), "m")) == "file.yaml:2:4: b: m"


@pytest.mark.parametrize("content", [b"\x7fELF\1\1\1\0", b"\xff\xfea\0:\0", b"PK\3\4", b"\0" * 9])
def test_binary_file(tmp_path: Path, content: bytes) -> None:
    said = message(tmp_path, content)
    assert re.match(
        r"file\.yaml:1:\d: (the character U\+[0-9A-F]{4} is not allowed|not UTF-8)", said
    )


def test_control_character(tmp_path: Path) -> None:
    assert message(tmp_path, "a: 1\nb: \x07\n").startswith("file.yaml:2:4: the character U+0007")


@pytest.mark.parametrize("escape", [r"\0", r"\e", r"\x7f"])
def test_control_character_by_escape(tmp_path: Path, escape: str) -> None:
    assert "is not allowed in text" in message(tmp_path, f'a: "{escape}"\n')


def test_tab(tmp_path: Path) -> None:
    text = message(tmp_path, "a:\n\t- 1\n")
    assert text.startswith("file.yaml:2:1: not valid YAML")
    assert text.endswith("YAML indents with spaces, not with tabs")


@pytest.mark.parametrize("text", ["a: [1", "a: *b", "a: 'x", "{", "a: b: c", "%", "? ? a"])
def test_syntax_errors_have_a_place(tmp_path: Path, text: str) -> None:
    found = message(tmp_path, text)
    assert found.startswith(("file.yaml:1:", "file.yaml:2:1:"))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("model: a\n b: c\n", "write `key: value` with a space, begin the keys"),
        ("a: net: word\n", "write `key: value` with a space, begin the keys"),
        ("a: 1\nb c\nd: 1\n", "write `key: value` with a space"),
        ("a: {b: 1\nc: 2\n", "close the brace or bracket that line 1 opens"),
        ("a: 1\nb: 'c\n", "close the quotes that line 2 opens"),
        ('a: "C:\\models"\n', "in double quotes a backslash begins an escape: use single quotes"),
        ("a:\n  b: 1\n c: 2\n", "begin the keys or items of a block in one column"),
        ("a: @b\n", "put the text in quotes"),
        ("a: *.npy\n", "put text that begins with & or * in quotes"),
        ("a: 1\n---\nb: 1\n", "a file has one: remove `---` and the lines after it"),
    ],
)
def test_a_syntax_error_says_what_to_do(tmp_path: Path, text: str, advice: str) -> None:
    assert f"; {advice}" in message(tmp_path, text)


def test_many_levels_of_nesting_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    assert "nested more than 32 deep" in message(tmp_path, "[" * 500_000)


def test_aliases_of_long_text_are_bounded(tmp_path: Path) -> None:
    text = f"a: &a {'x' * 500_000}\nb: [{'*a, ' * 1000}]\n"
    assert "too much data" in message(tmp_path, text)


def test_merges_of_merges_are_bounded(tmp_path: Path) -> None:
    lines = ["m0: &m0 {x: 1}"]
    lines += [f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 10)}]}}" for i in range(1, 9)]
    assert "too much data" in message(tmp_path, "\n".join(lines))


def test_merge_keys(tmp_path: Path) -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\n"
    document = load(tmp_path, text)
    assert document.data["c"] == {"x": 1, "y": 1, "z": 3}
    assert document.make_diagnostic(("c", "y"), "here").line == 1


def test_scalars(tmp_path: Path) -> None:
    text = (
        "[0x80000000, -0b11, 1_000, 1.5, 1.0e+3, yes, ~, 2024-01-01, 0o10, =, '010', \"\\u00e9\"]"
    )
    assert load(tmp_path, f"all: {text}").data["all"] == [
        *(0x80000000, -3, 1000, 1.5, 1000.0, True, None),
        *("2024-01-01", "0o10", "=", "010", "é"),
    ]


@pytest.mark.parametrize(
    "scalar",
    [
        *("010", "1:30", "1:30.5", ".inf", "-.inf", ".nan", "1.0e+999", "0b_", "0x" + "f" * 17),
        *("!!int x", "!!bool x", "!!float ''", "!!binary aGk=", "!!set {a}", "!own x", "9" * 6000),
    ],
)
def test_scalars_that_are_refused(tmp_path: Path, scalar: str) -> None:
    assert message(tmp_path, f"a: {scalar}").startswith("file.yaml:1:4: a: ")


def test_places(tmp_path: Path) -> None:
    document = load(tmp_path, "run:\n  flags: [a,\n    b]\n  'odd key': 1\n")
    assert (
        str(document.make_diagnostic(("run", "flags", 1), "m")) == "file.yaml:3:5: run.flags[1]: m"
    )
    assert str(document.make_diagnostic(("run", "flags"), "m")) == "file.yaml:2:10: run.flags: m"
    found = document.make_diagnostic(("run", "flags"), "m", key=True)
    assert str(found) == "file.yaml:2:3: run.flags: m"
    assert (
        str(document.make_diagnostic(("run", "odd key"), "m"))
        == "file.yaml:4:14: run['odd key']: m"
    )


def test_what_is_not_written_is_placed_at_what_holds_it(tmp_path: Path) -> None:
    document = load(tmp_path, "a: 1\nrun:\n  b: 2\n")
    assert str(document.make_diagnostic(("run", "c", "d"), "m")) == "file.yaml:3:3: run.c.d: m"
    assert str(document.make_diagnostic((), "m")) == "file.yaml:1:1: m"


def test_the_path_is_shown_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("[]")
    with pytest.raises(DiagnosticError, match=r"^\.\./.*/a\.yaml:1:1: "):
        load_document(Path("..") / tmp_path.name / "a.yaml", ANYTHING)


def test_a_flood_of_mistakes_is_cut(tmp_path: Path) -> None:
    text = "".join(f"key{i}: {i}\n" for i in range(5000))
    lines = message(tmp_path, text, {"additionalProperties": False}).splitlines()
    assert len(lines) == 51
    assert lines[0] == "file.yaml: 50 or more errors; some of them:"


def test_a_key_of_any_length_gives_a_short_message(tmp_path: Path) -> None:
    text = f"{'k' * 900}: 1\n"
    assert len(message(tmp_path, text, {"additionalProperties": False})) < 150


WITH_DEFAULTS = {
    "properties": {
        "size": {"$ref": "#/$defs/size"},
        "run": {
            "default": {},
            "properties": {"count": {"default": 1}, "area": {"$ref": "#/$defs/size"}},
        },
        "memory": {"additionalProperties": {"properties": {"width": {"default": 32}}}},
        "both": {"allOf": [{"$ref": "#/$defs/size"}, {"$ref": "#/$defs/part"}]},
        "parts": {"items": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/part"}]}},
    },
    "$defs": {
        "size": {"type": "object", "default": {}, "properties": {"x": {"default": 7}}},
        "part": {"type": "object", "properties": {"speed": {"default": 9}}},
    },
}


def test_defaults(tmp_path: Path) -> None:
    text = "run: {area: {x: 1}}\nmemory: {ram: {}, rom: {width: 8}}\nparts: [a, {}]\nboth: {}\n"
    assert load(tmp_path, text, WITH_DEFAULTS).data == {
        "size": {"x": 7},
        "run": {"count": 1, "area": {"x": 1}},
        "memory": {"ram": {"width": 32}, "rom": {"width": 8}},
        "parts": ["a", {"speed": 9}],
        "both": {"x": 7, "speed": 9},
    }


def test_defaults_are_not_shared(tmp_path: Path) -> None:
    load(tmp_path, "parts: []\n", WITH_DEFAULTS).data["run"]["count"] = 2
    assert load(tmp_path, "parts: []\n", WITH_DEFAULTS).data["run"]["count"] == 1


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"const": 4}, "5", "expected 4, found the number 5"),
        ({"enum": ["left", "right"]}, "rihgt", "unknown value 'rihgt'; did you mean 'right'?"),
        ({"exclusiveMinimum": 0}, "0", "expected more than 0, found the number 0"),
        ({"maxLength": 2}, "abc", "expected text of 2 characters at most, found the text 'abc'"),
        (
            {"uniqueItems": True},
            "[1, 1]",
            "expected items that all differ, found a list of 2 items",
        ),
        ({"type": ["string", "null"]}, "[]", "expected text or nothing, found a list of 0 items"),
        ({"type": "object"}, "on", "expected a mapping, found true"),
        ({"dependentRequired": {"x": ["y"]}}, "{x: 1}", "the key 'y' is missing; 'x' needs it"),
        ({"propertyNames": {"maxLength": 1}}, "{ab: 1}", "text of 1 characters at most"),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "x", "a whole number or a list"),
        ({"oneOf": [{"type": "array"}] * 2}, "x", "expected a list, found"),
        ({"anyOf": [{"minimum": 3}, {"minimum": 5}]}, "1", "expected at least 3"),
        ({"oneOf": [{"minimum": 3}, {"minimum": 5}]}, "9", "9 is valid under each of"),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, "{y: 1}", "unknown key"),
        ({"not": {"const": 1}, "errorMessage": "one is taken"}, "1", "one is taken; found"),
        ({"type": "string", "pattern": "^a$"}, "'a\n\n'", "does not match"),
    ],
)
def test_schema_findings_in_words(
    tmp_path: Path, schema: Mapping[str, Any], value: str, expected: str
) -> None:
    assert expected in message(tmp_path, f"key: {value}\n", {"properties": {"key": schema}})
