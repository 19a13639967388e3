"""The table of layers in ``firmwright inspect``."""

from __future__ import annotations

from firmwright.report.inspection import SHOWN_SOURCES, list_layers


def test_a_region_of_hundreds_of_operators_is_one_short_row() -> None:
    sources = [f"a_long_name_of_operator_{number}" for number in range(300)]
    layer = {"name": "subgraph", "device": "tidl", "macs": 9, "sources": sources}
    row = list_layers({"layers": [layer], "timeline": None})[-1]
    assert row.endswith(f"{sources[SHOWN_SOURCES - 1]} and 292 more")
    assert len(row) < 300
