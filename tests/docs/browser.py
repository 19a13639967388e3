"""Tests the built pages in a browser: ``python -m nox -s docs browser``.

It needs Chromium and ``playwright``, like tests/e2e/browser.py, so CI skips this file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

SITE = Path(__file__).parents[2] / "build" / "docs"
WIDTHS = (390, 1280, 1920)
PAGES = (
    "SECURITY",
    "docs/explanation/freshness",
    "docs/howto/detection",
    "docs/howto/export",
    *(
        f"docs/reference/{name}"
        for name in (
            "benchmarks", "commands", "conformance", "description-files", "platforms", "recipe"
        )
    ),
)  # fmt: skip
"""The pages with the widest tables."""
WIDE_TABLES = """
() => [...document.querySelectorAll("table")]
    .map(table => [table.getBoundingClientRect().width, table.parentElement.clientWidth])
    .filter(([table, box]) => table > box + 1)
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        yield browser.new_page()
        browser.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_table_is_wider_than_its_box(page: Page, name: str) -> None:
    page.goto((SITE / f"{name}.html").as_uri(), wait_until="domcontentloaded")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WIDE_TABLES) == [], width
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), width


def test_the_first_page_of_the_site_leads_to_the_pages(page: Page) -> None:
    page.goto((SITE / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    assert page.locator("input.sidebar-search").count() == 1
