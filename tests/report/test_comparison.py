"""Two timelines of one network, side by side."""

from __future__ import annotations

from firmwright.ir.kernels import Cycles
from firmwright.report.comparison import compare_timelines, format_times
from firmwright.report.timeline import CYCLES, Counted, TimedLayer, Timeline

Layer = tuple[str, str, int, int]
"""Sources (one letter each), device, modelled and counted cycles."""


def timeline(*layers: Layer) -> Timeline:
    rows = tuple(
        TimedLayer(f"region_{i}", 0, 0, device, tuple(sources), (), 0,
                    Cycles(modelled, 0, 0) if modelled else None, Counted(counted, counted))
        for i, (sources, device, modelled, counted) in enumerate(layers)
    )  # fmt: skip
    modelled, counted = sum(x[2] for x in layers), sum(x[3] for x in layers)
    return Timeline(
        CYCLES, "by some table", modelled + counted, modelled, counted, None, None, rows
    )


def rows(own: Timeline, other: Timeline) -> list[tuple[str, int, int]]:
    compared = compare_timelines(own, "npu, c", other, "c").layers
    return [("".join(row.sources), row.base.total, row.other.total) for row in compared]


def test_layers_that_compute_the_same_share_a_row() -> None:
    own = timeline(("ab", "npu", 90, 10), ("c", "c", 0, 70), ("", "c", 0, 5))
    other = timeline(("a", "c", 0, 800), ("b", "c", 0, 200), ("c", "c", 0, 70), ("", "c", 0, 7))
    compared = compare_timelines(own, "npu, c", other, "c")
    assert rows(own, other) == [("ab", 100, 1000), ("c", 70, 70), ("", 5, 7)]
    first = compared.layers[0]
    assert (first.devices, first.base.modelled, first.base.counted) == (("npu",), 90, 10)
    assert [row.speed_up for row in compared.layers] == [10.0, 1.0, 1.4]
    assert (compared.total.base.total, compared.total.other.total) == (175, 1077)


def test_a_layer_without_a_name_belongs_to_the_one_after_it() -> None:
    own = timeline(("a", "c", 0, 1), ("", "npu", 0, 2), ("b", "npu", 4, 0), ("", "npu", 0, 8))
    assert rows(own, timeline(("a", "c", 0, 16), ("b", "c", 0, 32))) == [
        ("a", 1, 16), ("b", 6, 32), ("", 8, 0),
    ]  # fmt: skip


def test_branches_in_another_order_share_a_row() -> None:
    own = timeline(("a", "c", 0, 1), ("b", "c", 0, 2), ("c", "c", 0, 4), ("d", "c", 0, 8))
    other = timeline(("a", "c", 0, 1), ("c", "c", 0, 2), ("b", "c", 0, 4), ("d", "c", 0, 8))
    assert rows(own, other) == [("a", 1, 1), ("bc", 6, 6), ("d", 8, 8)]


def test_without_common_names_there_is_one_row() -> None:
    assert rows(timeline(("a", "npu", 5, 1)), timeline(("", "c", 0, 60))) == [("a", 6, 60)]


def test_the_table_ends_with_the_total() -> None:
    own = timeline(("a", "npu", 1000, 200), ("", "c", 0, 34))
    lines = format_times(
        compare_timelines(own, "npu, c", timeline(("a", "c", 0, 9000)), "c")
    ).split("\n")
    assert lines[0].split() == ["layer", "cycles", "modelled", "processor", "with", "c", "speed-up"]
    assert lines[1].split() == ["a", "1,200", "1,000", "200", "9,000", "7.50"]
    assert lines[-1].split() == ["total", "1,234", "1,000", "234", "9,000", "7.29"]
    assert len({len(line) for line in lines}) == 1
