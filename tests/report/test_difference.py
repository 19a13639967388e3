"""The tables of a comparison in Markdown: folded digests, and the change of each number."""

from __future__ import annotations

import pytest

from firmwright.report.difference import AREAS, FOLDED, Change, Difference, format_markdown, rate


def test_digests_are_folded() -> None:
    assert tuple(AREAS)[-len(FOLDED) :] == FOLDED
    changes = tuple(Change(area, "a", 1, 2) for area in ("other", "files"))
    found = Difference("a.tar.gz", "b.tar.gz", "00", "11", (), changes)
    other, files = format_markdown(found).split("\n<details><summary>files</summary>\n")
    assert "| other | before | after | |" in other
    assert files.endswith("| a | 1 | 2 | +100.0 % |\n\n</details>")


@pytest.mark.parametrize(
    ("name", "before", "after", "shown"),
    [
        ("flash, bytes", 200, 190, "-5.0 %"),
        ("milliseconds", 2.0, 2.5, "+25.0 %"),
        ("top-1, %", 81.25, 80.0, "-1.25 points"),
        ("stack, bytes", 0, 8, ""),
        ("exact", True, False, ""),
        ("RAM, bytes", 8, 8, "="),
    ],
)
def test_a_number_has_its_change(name: str, before: object, after: object, shown: str) -> None:
    assert rate(Change("verdict", name, before, after)) == shown
