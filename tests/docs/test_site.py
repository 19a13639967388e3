"""The configuration of the site of pages, and the files that services read."""

from __future__ import annotations

import runpy

import pytest
import yaml

from firmwright import __version__
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


def test_a_citation_names_this_version_and_its_license() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert str(citation["version"]) == __version__
    for key, name in (("license", "license"), ("abstract", "description")):
        assert f'{name} = "{citation[key]}"\n' in project


def test_the_page_about_support_names_existing_forms() -> None:
    text = (ROOT / "SUPPORT.md").read_text("utf-8")
    for form in ("bug", "model", "board"):
        assert f"*{form}*" in text
        assert (ROOT / f".github/ISSUE_TEMPLATE/{form}.yml").is_file()
