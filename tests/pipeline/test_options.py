"""Options from environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.pipeline.stage_options import read_extra_archives


def test_the_environment_names_archives_as_words_of_a_linker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MORE", "-l one.lib -l '/a b/two.lib' -lthree.lib")
    assert read_extra_archives("MORE") == [Path("one.lib"), Path("/a b/two.lib"), Path("three.lib")]
