"""The user's files that a recipe names are found through its schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.recipe import Recipe

NAMED = """\
model: {python: "nets.small:network", files: [weights.npz]}
platform: boards/mine.yaml
transforms: {extra: ["rewrites:narrow"]}
extensions: ["strategies:blocked"]
libraries:
  - {name: resize, sources: [resize.c], includes: [resize.h]}
  - {name: filters, archive: libfilters.a}
postprocess:
  detection:
    picture: [32, 32]
    box: {encoding: corners}
    class_scores: {channel: 4}
    classes: coco.names
quantize:
  calibration: {inputs: {a: {pictures: [street.png, shots/, "more/*.png"]}, b: b.npy}}
evaluate: {inputs: {a: {python: "made:samples"}}, labels: labels.npy, metric: "metrics:f1"}
run: {inputs: run.npz}
"""
FILES = (
    *("nets/small.py", "weights.npz", "boards/mine.yaml", "rewrites.py", "strategies.py"),
    *("resize.c", "resize.h", "libfilters.a", "coco.names", "street.png", "shots/1.png"),
    *("shots/2.png", "more/3.png", "b.npy", "made.py", "labels.npy", "metrics.py", "run.npz"),
)


@pytest.fixture
def recipe(tmp_path: Path, catalogue: Catalog) -> Recipe:
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    path = tmp_path / "small.yaml"
    path.write_text(NAMED)
    return load_recipe(path, {}, catalogue)


def names(recipe: Recipe, *keys: str) -> set[str]:
    return {path.relative_to(recipe.path.parent).as_posix() for path in recipe.list_files(*keys)}


def test_every_file_is_found(recipe: Recipe) -> None:
    assert names(recipe) == set(FILES)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["model"], {"nets/small.py", "weights.npz"}),
        (["libraries"], {"resize.c", "resize.h", "libfilters.a"}),
        (["evaluate"], {"made.py", "labels.npy", "metrics.py"}),
        (["evaluate.inputs"], {"made.py"}),
        (["postprocess", "run.inputs"], {"coco.names", "run.npz"}),
        (["quantize"], {"street.png", "shots/1.png", "shots/2.png", "more/3.png", "b.npy"}),
        (["devices", "demo"], set()),
    ],
)
def test_files_of_a_key(recipe: Recipe, keys: list[str], expected: set[str]) -> None:
    assert names(recipe, *keys) == expected


def test_what_a_function_imports_is_one_of_its_files(recipe: Recipe) -> None:
    (recipe.path.parent / "made.py").write_text("import helper, numpy\n")
    (recipe.path.parent / "helper.py").touch()
    assert names(recipe, "evaluate.inputs") == {"made.py", "helper.py"}


@pytest.mark.parametrize(
    "name", ["weights.npz", "boards/mine.yaml", "rewrites.py", "resize.h", "coco.names", "b.npy"]
)
def test_a_file_that_is_not_there(
    recipe: Recipe, catalogue: Catalog, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recipe.path.parent)  # a message shortens long paths
    Path(name).unlink()
    with pytest.raises(DiagnosticError, match=f"no such file: .*{name}'"):
        load_recipe(Path(recipe.path.name), {}, catalogue)


def test_a_pattern_is_looked_up_when_it_is_read(recipe: Recipe, catalogue: Catalog) -> None:
    (recipe.path.parent / "more/3.png").unlink()
    assert names(load_recipe(recipe.path, {}, catalogue)) == {*FILES} - {"more/3.png"}


def test_digest_ignores_where_absolute_files_are(recipe: Recipe, catalogue: Catalog) -> None:
    folder, before = recipe.path.parent, recipe.sha256
    text = NAMED
    for name in ("weights.npz", "resize.c", "coco.names", "street.png", "b.npy", "run.npz"):
        text = text.replace(name, f"{folder}/{name}")
    recipe.path.write_text(text)
    again = load_recipe(recipe.path, {}, catalogue)
    assert again.sha256 == before
    assert names(again) == set(FILES)
