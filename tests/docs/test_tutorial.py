"""The tutorial shows the current output of its commands, except for times and sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmwright.errors import UserError
from tests.e2e.conftest import ROOT
from tests.e2e.test_terminal import read_picture

from .tutorial import MODEL, PAGE, follow, new_folder

NUMBER = re.compile(r"\b[0-9a-f]{16,}\b|\d[\d,.]*")
"""Digests, times, sizes and versions, which change with every kernel and machine."""


def mask(text: str) -> str:
    return re.sub(r"[ \t]+", " ", NUMBER.sub("#", text))


def test_the_tutorial_is_what_happens(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    try:
        repository = new_folder(folder)
    except UserError as missing:
        pytest.skip(str(missing))
    page = PAGE.read_text(encoding="utf-8")
    text = follow(page, repository, tmp_path)
    stale = "the tutorial is stale; `python -m tests.docs.tutorial` writes it"
    assert mask(text) == mask(page), stale
    pictures = sorted(tmp_path.glob("*.svg"))
    assert [path.name for path in pictures] == ["tutorial-again.svg", "tutorial-build.svg"]
    for path in pictures:
        shown = read_picture(ROOT / "docs" / "pictures" / path.name)
        assert mask(read_picture(path)) == mask(shown), stale
    assert "2 of 2 samples exact" in read_picture(pictures[1])
    assert str(folder) not in text


def test_the_tutorial_downloads_the_model_of_a_recipe() -> None:
    assert f"-o keywords.tflite {MODEL['url']}\n" in PAGE.read_text(encoding="utf-8")
