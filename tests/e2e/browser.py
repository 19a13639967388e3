"""The report in a browser: ``python -m nox -s browser``. It needs Chromium and ``playwright``.

CI leaves it out: Chromium takes longer to install than these tests to run. With ``--refresh`` the
pictures in docs are taken anew.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from firmwright.report.page import render_page
from firmwright.report.report import Report

from .conftest import ROOT, Repository
from .test_report import repeat_layers

PICTURES = ROOT / "docs" / "pictures"
SHOWN = {
    "resnet8-diana": "diana",
    "kws": "cortex-m4-bare",
    "fastestdet-am62a": "am62a",
}
"""The recipes and platforms whose reports docs show."""
WIDTHS = (390, 1280)
COLORS = 64
"""Of a picture, which is a third as large as with all."""
FIRST_SCREENS = 2
"""Of a page, so many heights of the window are shown."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=SHOWN.items(), ids="-".join)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a recipe's bundle."""
    recipe, platform = request.param
    repository = Repository(tmp_path_factory.mktemp(recipe), dict(os.environ))
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build(f"recipe={ROOT / 'recipes' / recipe}.yaml", f"platform={platform}")
    return repository.folder / f"build/{recipe}/{recipe}-{platform}.html"


@pytest.fixture(params=WIDTHS)
def page(chromium: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open the report; nothing may be written to the console or fetched from elsewhere."""
    width = request.param
    said: list[str] = []
    fetched: list[str] = []
    opened = chromium.new_page(viewport={"width": width, "height": 900})
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: fetched.append(request.url))
    opened.goto(report.as_uri())
    yield opened
    assert said == []
    assert [url for url in fetched if not url.startswith("data:")] == [report.as_uri()]
    opened.close()


def test_the_page_is_as_wide_as_the_window(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth === window.innerWidth")


def test_a_heading_sorts_by_number_and_again_the_other_way(page: Page) -> None:
    for order in (sorted, lambda keys: sorted(keys, reverse=True)):
        page.get_by_role("button", name="MACs").click()
        keys = page.eval_on_selector_all(
            "#layer-table tbody tr", "rows => rows.map(row => Number(row.cells[4].dataset.key))"
        )
        assert keys == order(keys)
        assert len(set(keys)) > 1


def test_search_leaves_the_layers_that_have_the_word(page: Page) -> None:
    rows = page.locator("#layer-table tbody tr")
    page.get_by_role("searchbox").fill("conv2d")
    shown = page.locator("#layer-table tbody tr:not([hidden])")
    assert 0 < shown.count() < rows.count()
    assert all("conv2d" in text.lower() for text in shown.all_text_contents())
    assert page.locator("#found").inner_text() == f"{shown.count()} of {rows.count()} layers"


def test_a_node_of_the_graph_opens_its_layer(page: Page) -> None:
    row = page.locator("#layer-3")
    assert row.locator("dl").is_hidden()
    page.locator("#graph li a").nth(2).click()
    assert row.locator("dl").is_visible()
    assert row.locator("dl").get_by_text("Region", exact=True).is_visible()


def test_the_keyboard_reaches_a_layer(page: Page) -> None:
    page.locator("#layer-2 summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#layer-2 dl").is_visible()


def test_without_a_script_a_layer_opens_too(chromium: Browser, report: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(report.as_uri())
    assert opened.locator("#search-line").is_hidden()
    opened.locator("#layer-2 summary").click()
    assert opened.locator("#layer-2 dl").is_visible()
    context.close()


def test_pictures_for_the_docs_can_be_taken(
    page: Page, report: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = PICTURES if request.config.getoption("--refresh") else tmp_path
    width, height = page.evaluate("[window.innerWidth, window.innerHeight]")
    page.set_viewport_size({"width": width, "height": FIRST_SCREENS * height})
    taken = folder / f"report-{report.stem}-{width}.png"
    page.screenshot(path=taken)
    Image.open(taken).convert("RGB").quantize(COLORS).save(taken, optimize=True)
    assert taken.stat().st_size > 10_000


def test_the_graph_is_zoomed_and_dragged(page: Page) -> None:
    graph, frame = page.locator(".graph"), page.locator("#graph .scroll")
    page.get_by_role("button", name="Larger").click()
    assert graph.evaluate("graph => graph.style.zoom") == "1.25"
    frame.evaluate("frame => { frame.style.maxHeight = '100px'; }")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    assert box
    page.mouse.move(box["x"] + 50, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 50, box["y"] + 30)
    page.mouse.up()
    assert frame.evaluate("frame => frame.scrollTop") > 0
    assert "#" not in page.url
    page.get_by_role("button", name="Reset").click()
    assert graph.evaluate("graph => graph.style.zoom") == "1"


def test_two_thousand_layers_are_shown(chromium: Browser, report: Path, tmp_path: Path) -> None:
    with tarfile.open(report.with_suffix(".tar.gz")) as archive:
        stored = archive.extractfile(f"{report.stem}/report/report.json")
        assert stored
        content = msgspec.json.decode(stored.read(), type=Report)
    large = tmp_path / "large.html"
    large.write_text(render_page(repeat_layers(content, -(-2000 // len(content.layers)))))
    opened = chromium.new_page()
    opened.goto(large.as_uri())
    assert opened.locator("#layer-table tbody tr").count() >= 2000
    opened.close()
