"""Recipes whose files change, but whose meaning stays the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.documents.chain import Layers
from firmwright.pipeline.freshness import identify
from firmwright.pipeline.same_recipes import (
    Loose,
    RecipeText,
    find_changed,
    is_same,
    make_text,
    read_loose,
)

NET = "extends: ../parts/base.yaml\nmodel: net.onnx\n"
BASE = "run: {samples: 2}\n"


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RecipeText, dict[str, Loose]]:
    monkeypatch.chdir(tmp_path)
    for name, text in {"nets/net.yaml": NET, "parts/base.yaml": BASE}.items():
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    layers = Layers(Path("nets/net.yaml"), (), {"run.seed": "3"})
    known = make_text(layers, [Path("nets/net.yaml"), Path("parts/base.yaml")])
    return known, read_loose([known])


def replace(name: str, text: str) -> None:
    """Replace a file by another one, as editors do."""
    Path("new").write_text(text)
    Path("new").replace(name)


def move_model() -> None:
    """State the model's path in a file of another folder."""
    replace("nets/net.yaml", "extends: ../parts/base.yaml\n")
    replace("parts/base.yaml", f"{BASE}model: net.onnx\n")


CHANGES: dict[str, tuple[Callable[[], object], bool]] = {
    "nothing": (lambda: None, True),
    "a time": (lambda: os.utime("parts/base.yaml"), True),
    "a comment": (lambda: replace("parts/base.yaml", f"# Why.\n{BASE}"), True),
    "the order": (lambda: replace("nets/net.yaml", "".join(reversed(NET.splitlines(True)))), True),
    "a fragment": (lambda: replace("nets/net.yaml", f"{NET}x-a: 3\n"), True),
    "a value of a base": (lambda: replace("parts/base.yaml", "run: {samples: 3}\n"), False),
    "a value": (lambda: replace("nets/net.yaml", f"{NET}target: c\n"), False),
    "the folder of a path": (lambda: replace("parts/base.yaml", f"{BASE}model: net.onnx\n"), True),
    "a path": (move_model, False),
    "a damaged base": (lambda: replace("parts/base.yaml", "run: ["), False),
    "no base": (lambda: Path("parts/base.yaml").unlink(), False),
    "a file more": (lambda: Path("nets/net.lock").touch(), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_text_counts_if_it_says_something_else(
    known: tuple[RecipeText, dict[str, Loose]], change: str
) -> None:
    act, same = CHANGES[change]
    act()
    text, places = known
    assert is_same(text, find_changed(places, identify(places))) is same
