"""The table of layers in ``firmwright inspect``."""

from __future__ import annotations

from firmwright.report.inspection import (
    SHOWN_SOURCES,
    SOURCES_WIDTH,
    format_sources,
    list_layers,
)


def test_a_region_of_hundreds_of_operators_is_one_short_row() -> None:
    sources = [f"a_name_of_operator_{number}" for number in range(300)]
    layer = {"name": "subgraph", "device": "tidl", "macs": 9, "sources": sources}
    row = list_layers({"layers": [layer], "timeline": None})[-1]
    assert row.endswith(f"{sources[SHOWN_SOURCES - 1]} and 292 more")
    assert len(row) < 300


def test_rows_of_long_names_are_short() -> None:
    paths = [f"model/{'block/' * 20}operator_{number}" for number in range(3)]
    assert format_sources(paths) == f"{paths[0]} and 2 more"
    assert format_sources(["a" * 900, "b"]) == f"{'a' * (SOURCES_WIDTH - 1)}… and 1 more"
    assert format_sources(["b", "c"]) == "b, c"
