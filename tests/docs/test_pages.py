"""Sphinx builds the pages without a warning, and every link has a target."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import firmwright.device
from firmwright.models.onnx.graph.quantized_lstm import QUANTIZED_LSTM
from firmwright.models.onnx.graph.rewrites import RUNTIME_REWRITES
from tests.quality.test_repository import ROOT, tracked

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED_PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]+\.(?:md|csv|svg|py)\b")


def test_sphinx_builds_the_pages_without_a_warning(tmp_path: Path) -> None:
    """Sphinx checks the toctrees, the links between pages, and the docstrings."""
    strict = ("--fail-on-warning", "--keep-going", "--quiet", "--builder", "html")
    places = ("--conf-dir", "docs", "--doctree-dir", str(tmp_path / "trees"), ".")
    command = [sys.executable, "-m", "sphinx", *strict, *places, str(tmp_path / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "firmwright.device.Target" in (tmp_path / "html/docs/reference/device.html").read_text()


def read_links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the heading of every link into the repository."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for path, heading in LINK.findall(text):
        if not re.match("[a-z]+:", path):
            yield path, heading


def list_headings(page: Path) -> set[str]:
    """Return the headings of a page in the form that links use."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found}


def test_links_lead_somewhere() -> None:
    """The check includes README, which is not a page of Sphinx."""
    files = {path.resolve() for path in tracked()}
    folders = {folder for path in files for folder in path.parents}
    broken = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        for path, heading in read_links(page):
            place = (page.parent / path).resolve() if path else page.resolve()
            is_there = place in files or place in folders
            if not is_there or (heading and heading not in list_headings(place)):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{heading}")
    assert not broken


def test_pages_that_code_and_messages_name_exist() -> None:
    for path in tracked():
        if path.suffix in {".py", ".j2", ".json", ".yaml", ".c", ".md"}:
            for name in NAMED_PAGE.findall(path.read_text(encoding="utf-8")):
                assert (ROOT / name).is_file(), f"{path.relative_to(ROOT)} names {name}"


def test_the_page_of_the_python_interface_has_every_name() -> None:
    page = (ROOT / "docs/reference/device.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. auto\w+:: (\w+)", page, re.MULTILINE))
    assert described | {"Constant"} == set(firmwright.device.__all__)


def test_the_operators_of_onnx_runtime_are_those_of_their_page() -> None:
    """The first table of the page lists the compiled operators, separated by commas."""
    text = (ROOT / "docs/reference/onnx-runtime.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| the [^|]*\| ([^|]*) \|$", text, re.MULTILINE)
    listed = [name for cell in cells for name in cell.split(", ")]
    known = {name.removeprefix("com.microsoft.") for name in (*RUNTIME_REWRITES, *QUANTIZED_LSTM)}
    assert sorted(listed) == sorted(known)
