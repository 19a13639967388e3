"""Any content of a file results in a Recipe or a DiagnosticError, never in another exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.target import parse_target, read_target

KEYS = "name model path url sha256 format inputs image shape platform target device options"
KEYS += " rounding toolchain c_prefix cflags run samples seed emulator tolerance absolute relative"
VALUES = "c zig host rv32-bare tidl net.onnx a.npz 1 0 -1 1.5 1e3 010 on ~ x.yaml / .. .inf soma"
MARKS = [": ", "- ", ", ", "\n", "\n  ", "[", "]", "{", "}", "&a ", "*a", "<<", "'", '"', "#"]
MARKS += ["!!int ", "!x ", "? ", "---\n", "%", "\t", " ", ">", "|"]

words = st.sampled_from([*KEYS.split(), *VALUES.split()])
yaml_like = st.lists(st.one_of(words, st.sampled_from(MARKS)), max_size=40).map("".join)

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), words)
data = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(words, scalars), inner, max_size=6)
    ),
    max_leaves=25,
)
top = st.dictionaries(st.sampled_from(KEYS.split()), data, max_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "net.onnx").touch()
    return folder


def try_to_load(folder: Path, content: bytes, catalogue: Catalog) -> None:
    path = folder / "any.yaml"
    path.write_bytes(content)
    try:
        recipe = load_recipe(path, {}, catalogue)
    except DiagnosticError as error:
        assert all(d.path == str(path) and "\n" not in d.message for d in error.diagnostics)
    else:
        assert len(recipe.sha256) == 64


examples = settings(max_examples=200, deadline=None, derandomize=True, database=None)


@examples
@given(content=st.binary(max_size=200))
def test_any_bytes(folder: Path, catalogue: Catalog, content: bytes) -> None:
    try_to_load(folder, content, catalogue)


@examples
@given(text=st.one_of(st.text(), yaml_like))
def test_any_text(folder: Path, catalogue: Catalog, text: str) -> None:
    try_to_load(folder, text.encode("utf-8", "surrogatepass"), catalogue)


@examples
@given(content=top)
def test_any_data_under_known_keys(
    folder: Path, catalogue: Catalog, content: dict[str, Any]
) -> None:
    text = yaml.safe_dump({"model": "net.onnx", **content}, allow_unicode=False)
    try_to_load(folder, text.encode(), catalogue)


@examples
@given(text=st.text(), platform=st.text(), samples=st.text())
def test_any_override(
    folder: Path, catalogue: Catalog, text: str, platform: str, samples: str
) -> None:
    path = folder / "right.yaml"
    path.write_text("model: net.onnx\n")
    overrides = {"target": text, "platform": platform, "samples": samples}
    try:
        load_recipe(path, overrides, catalogue)
    except DiagnosticError as error:
        assert error.diagnostics


@examples
@given(
    names=st.lists(
        st.sampled_from(["c", "tidl", "dla", "x.1"]), min_size=1, max_size=4, unique=True
    ),
    value=words,
)
def test_notation_and_list_say_the_same(names: list[str], value: str) -> None:
    listed, _ = read_target([{"device": name, "options": {"a": value}} for name in names])
    text = ", ".join(f"{name} -a={value}" for name in names)
    assert parse_target(text) == tuple(device for _, device in listed)
