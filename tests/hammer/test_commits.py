"""The comparison of two commits finds each class of differences; see tests.hammer.commits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.hammer.commits import OUTPUTS, Build, Checkout, compare

DIGEST = "0a" * 32
BUILD_ID = ", ".join(["0x0a"] * 20)
SOURCE = f"""\
/* Adds. */
const int32_t added[2] = {{
    305419896, -2 /* 0x12345678 */
}};
int network_add_0011aabb(int a) {{ struct timespec t = {{0}}; return a + added[0]; }}
const char *recipe_sha256 = "{DIGEST}";
__asm__(".byte {BUILD_ID}\\n");
"""
FILES = {"src/network_add_0011aabb.c": SOURCE, "manifest.json": '{"run": {"samples": 1}}'}


def make_build(files: Mapping[str, str] = FILES, output: float = 0.0) -> Build:
    arrays = {name: {"firmware_0": np.array([output, 1.0], np.float32)} for name in OUTPUTS}
    return Build(repr(files).encode(), {n: text.encode() for n, text in files.items()}, arrays)


def change(old: str, new: str) -> dict[str, str]:
    return {name.replace(old, new): text.replace(old, new) for name, text in FILES.items()}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param(FILES, set(), id="same"),
        pytest.param(change("0011aabb", "ccdd2233"), set(), id="digest of a name"),
        pytest.param(change(DIGEST, "1b" * 32), set(), id="digest of a recipe"),
        pytest.param(change("0x0a", "0x1b"), set(), id="build id"),
        pytest.param(change("Adds.", "Sums"), {"comments"}, id="comment"),
        pytest.param(change(" + ", " +\n"), {"comments"}, id="white space"),
        pytest.param(change("a + added", "a - added"), {"code"}, id="code"),
        pytest.param(change("{0}", "{1}"), {"code"}, id="number of a struct"),
        pytest.param(change("305419896", "12345678"), {"constants", "arrays"}, id="constant"),
        pytest.param(change('"samples": 1', '"samples": 2'), {"manifest.json"}, id="field"),
        pytest.param({**FILES, "report.html": "new"}, {"only new"}, id="file"),
    ],
)
def test_classes(files: Mapping[str, str], found: set[str]) -> None:
    assert {*dict(compare(make_build(), make_build(files)))} - {"bundle"} == found


def test_outputs_with_the_same_bundle() -> None:
    found = dict(compare(make_build(), make_build(output=-0.0)))
    assert {*found} == {*OUTPUTS}  # the bytes differ, although the values are equal
    found = dict(compare(make_build(), make_build(output=2.5)))
    assert found["outputs"] == "firmware_0: 1 of 2 values, at most 2.5"


def test_rejected_recipe(tmp_path: Path) -> None:
    """A recipe that a commit cannot build is reported with the last line of the error."""
    recipe = tmp_path / "r.yaml"
    recipe.write_text("model: x.onnx\nplatform: host\nnew_key: 1\n", "utf-8")
    build = Checkout(None, tmp_path / "cache").build(str(recipe))
    assert "new_key" in build.error


def test_recipes(tmp_path: Path) -> None:
    """Bases, platforms and schemas are no recipes to compare."""
    found = Checkout(None, tmp_path / "cache").list_recipes()
    assert {
        "recipes/digits.yaml",
        "recipes/ad-diana.yaml",
        "examples/tidl/conv2d_1x2_stride.yaml",
    } < {*found}
    assert not {"recipes/bases/exact.yaml", "examples/arm_dsp_dla/private.yaml"} & {*found}
