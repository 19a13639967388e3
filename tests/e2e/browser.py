"""Tests the report in a browser: ``python -m nox -s browser``.

It needs Chromium and ``playwright``. One test also opens Model Explorer if
``ai-edge-model-explorer`` is installed. CI skips this file, because the installation of Chromium
takes longer than these tests. ``--refresh`` renews the pictures in docs.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from PIL import Image
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from firmwright.errors import to_printable
from firmwright.report.page import render_page
from firmwright.report.report import Report

from .conftest import ROOT, Repository
from .hostile import NAMES, repeat_layers
from .test_report import compare, hostile

__all__ = ["hostile"]
"""A fixture that the tests of this file use too."""

PICTURES = ROOT / "docs" / "pictures"
SHOWN = {
    "resnet8-diana": "diana",
    "kws": "cortex-m4-bare",
    "fastestdet-am62a": "am62a",
}
"""The recipes and platforms whose reports are pictures in docs."""
WIDTHS = (390, 1280)
Scheme = Literal["light", "dark"]
COLORS = 64
"""The number of colors in a picture, which makes its file a third as large."""
FIRST_SCREENS = 2
"""The height of a picture, in heights of the window."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


@pytest.fixture(scope="session", params=SHOWN.items(), ids="-".join)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the bundle of a recipe."""
    recipe, platform = request.param
    repository = Repository(tmp_path_factory.mktemp(recipe), dict(os.environ))
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build(f"recipe={ROOT / 'recipes' / recipe}.yaml", f"platform={platform}")
    return repository.folder / f"build/{recipe}/{recipe}-{platform}.html"


@contextmanager
def open_page(
    chromium: Browser, path: Path, width: int, scheme: Scheme = "light"
) -> Iterator[Page]:
    """Open a page; it must not use the console, open a dialog, or fetch a file from elsewhere."""
    said: list[str] = []
    fetched: list[str] = []
    opened = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))

    def refuse(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    opened.on("dialog", refuse)
    opened.on("request", lambda request: fetched.append(request.url))
    opened.goto(path.as_uri())
    yield opened
    assert said == []
    assert [url for url in fetched if not url.startswith("data:")] == [path.as_uri()]
    opened.close()


@pytest.fixture(params=WIDTHS)
def page(chromium: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    with open_page(chromium, report, request.param) as opened:
        yield opened


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


def test_the_keyboard_walks_through_the_graph_and_sorts(page: Page) -> None:
    page.locator("#graph li a").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#layer-2 dl").is_visible()
    page.get_by_role("button", name="MACs").focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("columnheader", name="MACs").get_attribute("aria-sort") == "ascending"


def test_a_screen_reader_is_told_of_every_part(page: Page) -> None:
    recorded = page.locator("body").aria_snapshot()
    for section in ("Summary", "Advice", "Graph", "Memory over time", "Layers", "Sizes"):
        assert f'heading "{section}" [level=2]' in recorded
        assert f'region "{section}"' in recorded
    assert 'navigation "Sections"' in recorded
    assert 'searchbox "Search"' in recorded
    assert 'img "Buffers in ram"' in recorded
    rows = page.locator("#layer-table tbody tr").count()
    assert len(page.locator("#graph").get_by_role("listitem").all()) == rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("selector", ["body", ".device", "section > p", ".cards strong", "small"])
def test_text_stands_out_from_what_is_behind(
    chromium: Browser, report: Path, scheme: Scheme, selector: str
) -> None:
    """The ratio of WCAG's level AA is 4.5; cards and marked rows have a separate color."""
    with open_page(chromium, report, 1280, scheme) as opened:
        colors = opened.eval_on_selector_all(
            selector, "found => found.map(each => getComputedStyle(each).color)"
        )
        behind = [
            opened.locator(place).first.evaluate("e => getComputedStyle(e).backgroundColor")
            for place in ("body", ".cards > div")
        ]
    ratios = {measure_contrast(color, other) for color in colors for other in behind}
    assert min(ratios) >= 4.5


def measure_contrast(*colors: str) -> float:
    """Return the contrast ratio of two colors, as WCAG defines it."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, colors))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_are_shown_and_do_nothing(
    chromium: Browser, hostile: Repository, width: int
) -> None:
    path = hostile.folder / "build/net/net-rv32-bare.html"
    with open_page(chromium, path, width) as opened:
        shown = opened.locator("#layer-table bdi").all_text_contents()
        assert {*map(to_printable, NAMES)} <= {*shown}
        assert opened.evaluate("document.documentElement.scrollWidth === window.innerWidth")
        assert opened.locator("img, iframe").count() == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_two_builds_side_by_side_are_sorted_and_searched(
    chromium: Browser, hostile: Repository, width: int, tmp_path: Path
) -> None:
    hostile.build("recipe=net.yaml", "platform=diana", "target=soma_dory, c")
    written = tmp_path / "compared.html"
    builds = [f"build/net/net-{name}.tar.gz" for name in ("rv32-bare", "diana")]
    compare(hostile, *builds, "--html", str(written))
    with open_page(chromium, written, width) as opened:
        opened.get_by_role("button", name="More").click()
        keys = opened.eval_on_selector_all(
            "#layer-table tbody tr", "rows => rows.map(row => Number(row.cells[7].dataset.key))"
        )
        assert keys == sorted(keys)
        opened.get_by_role("searchbox").fill("sum")
        assert 0 < opened.locator("#layer-table tbody tr:not([hidden])").count() < len(keys)
        assert opened.evaluate("document.documentElement.scrollWidth === window.innerWidth")


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


@contextmanager
def explore(model: Path, data: Path) -> Iterator[str]:
    """Start Model Explorer with data for a model; yield the address of its page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("model-explorer")
    if program is None:
        pytest.skip("needs `pip install ai-edge-model-explorer`")
    options = ("--host=127.0.0.1", f"--port={port}", "--no_open_in_browser", "--skip_health_check")
    command = [program, str(model), f"--node_data_paths={data}", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        found = (re.search(r"http://127\S+", line) for line in server.stdout)
        yield next(place[0] for place in found if place)
        server.terminate()


def test_model_explorer_shows_the_times_over_the_users_own_model(
    chromium: Browser, report: Path, tmp_path: Path
) -> None:
    if "kws" not in report.name:
        pytest.skip("one network is enough")
    with tarfile.open(report.with_suffix(".tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    made = tmp_path / report.stem / "report"
    folders = os.environ["FIRMWRIGHT_MIRROR"].split(os.pathsep)
    own = next(p for f in folders if (p := Path(f) / "kws_ref_model.tflite").exists())
    with explore(own, made / "model_explorer/over_model_time.json") as place:
        opened = chromium.new_page(viewport={"width": 1600, "height": 1000})
        opened.goto(place)
        table = opened.get_by_role("row").filter(has_text="depthwise_conv_2d").first
        table.wait_for()
        slowest = max(layer["time"]["counted"] for layer in read_layers(made))
        assert opened.get_by_role("row").filter(has_text=f"{slowest}").count() >= 1
        opened.close()


def read_layers(made: Path) -> list[dict[str, Any]]:
    layers: list[dict[str, Any]] = msgspec.json.decode((made / "report.json").read_bytes())[
        "layers"
    ]
    return layers
