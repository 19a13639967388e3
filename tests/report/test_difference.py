"""The digests of a comparison are the last tables in Markdown, and a reader opens them."""

from __future__ import annotations

from firmwright.report.difference import AREAS, FOLDED, Change, Difference, format_markdown


def test_digests_are_folded() -> None:
    assert tuple(AREAS)[-len(FOLDED) :] == FOLDED
    changes = tuple(Change(area, "a", 1, 2) for area in ("other", "files"))
    found = Difference("a.tar.gz", "b.tar.gz", "00", "11", (), changes)
    other, files = format_markdown(found).split("\n<details><summary>files</summary>\n")
    assert "| other | before | after | |" in other
    assert files.endswith("| a | 1 | 2 | +100.0 % |\n\n</details>")
