"""Values of ``recipe=``: paths, names in ``recipes/``, patterns, and several of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from doit import doit_cmd, loader

from firmwright.errors import UserError
from firmwright.pipeline.command_line import set_variables
from firmwright.pipeline.recipe_arguments import enter_repository, find_recipes


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a task file and recipes, in which the command runs."""
    recipes = ("recipes/yolo.yaml", "recipes/kws.yaml", "own/kws.yaml", "own/vad.yaml", "a.yaml")
    for name in (*recipes, "recipes/kws.lock", "own/kws.tflite"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "own/chip.yaml").write_text("name: chip\narchitecture: cortex-m0\n")
    (tmp_path / "own/fleet.yaml").write_text('recipes: ["*"]\n')
    (tmp_path / "own/more-fleet.yaml").write_text("include: [{recipe: kws}]\n")
    (tmp_path / "own/desk.yaml").write_text("flash: [./flash.sh]\nserial: {port: /dev/ttyACM0}\n")
    (tmp_path / "dodo.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, "initial_workdir", str(tmp_path))
    yield tmp_path
    doit_cmd.reset_vars()


def find(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    arguments = [f"recipe={word}" for word in words]
    monkeypatch.setattr(sys, "argv", ["doit", "build", *arguments])
    doit_cmd.reset_vars()
    set_variables(arguments)
    return [str(path) for path in find_recipes()]


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ((), ["recipes/kws.yaml", "recipes/yolo.yaml"]),
        (("yolo.yaml",), ["recipes/yolo.yaml"]),
        (("yolo",), ["recipes/yolo.yaml"]),
        (("recipes/yolo.yaml",), ["recipes/yolo.yaml"]),
        (("own/kws",), ["own/kws.yaml"]),
        (("a",), ["a.yaml"]),
        (("own/*",), ["own/kws.yaml", "own/vad.yaml"]),
        (("k*",), ["recipes/kws.yaml"]),
        (("*lo",), ["recipes/yolo.yaml"]),
        ((":".join(["a"] * 1001),), [":".join(["a.yaml"] * 1001)]),
        (("yolo,a", "kws", "a.yaml"), ["recipes/yolo.yaml", "a.yaml", "recipes/kws.yaml"]),
    ],
)
@pytest.mark.usefixtures("repository")
def test_words_name_files(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], files: list[str]
) -> None:
    assert find(monkeypatch, *words) == files


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("yollo.yaml", "recipe=yollo.yaml: no such recipe; did you mean 'yolo'?"),
        ("x*", "recipe=x*: no such recipe; known: a, kws, yolo"),
        (
            "own/kws.tflite",
            "recipe=own/kws.tflite: is a model; `firmwright init own/kws.tflite` writes a "
            "recipe for it",
        ),
        (
            "own/chip",
            "recipe=own/chip: does not describe a network; platforms and toolchains are named "
            "by platform= and toolchain=, and a fleet is built by `firmwright fleet`",
        ),
        ("own", "recipe=own: is a folder; for all its recipes, write own/*.yaml"),
        ("a:", "recipe=a:: expected a file before and after each colon"),
        ("x" * 5000, f"recipe={'x' * 5000}: no such recipe; known: a, kws, yolo"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_word_for_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, word: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        find(monkeypatch, word)
    assert str(caught.value) == message


def test_words_start_in_the_folder_of_the_command(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "own")
    enter_repository()
    assert Path.cwd() == repository
    assert find(monkeypatch, "vad", "yolo", "../a.yaml") == [
        "own/vad.yaml", "recipes/yolo.yaml", "own/../a.yaml",
    ]  # fmt: skip
