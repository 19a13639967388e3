"""Every page for users of another tool states a measurement, or that there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quality.test_repository import ROOT

PAGES = sorted({*(ROOT / "docs/migration").glob("*.md")} - {ROOT / "docs/migration/index.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_measurement(page: Path) -> None:
    (line,) = (
        line for line in page.read_text("utf-8").splitlines() if line.startswith("Measured: ")
    )
    assert "../reference/benchmarks.md" in line
