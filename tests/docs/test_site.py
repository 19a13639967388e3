"""The configuration of the site of pages."""

from __future__ import annotations

import runpy

import pytest

from tests.quality.test_repository import ROOT


def test_pages_have_edit_links_in_a_workflow_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert "html_theme_options" not in runpy.run_path(str(ROOT / "docs/conf.py"))
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "ada/firmwright")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    options = runpy.run_path(str(ROOT / "docs/conf.py"))["html_theme_options"]
    assert options == {
        "source_edit_link": "https://github.com/ada/firmwright/edit/main/{filename}",
        "source_view_link": "https://github.com/ada/firmwright/blob/main/{filename}",
    }
