"""Regions of several operators are as large as possible without a cycle."""

from __future__ import annotations

from graphlib import TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from firmwright.partition.merging import merge_acyclic


def test_a_line_is_one_region() -> None:
    assert merge_acyclic("abc", {"a": "", "b": "a", "c": "b"}, set("abc")) == [["a", "b", "c"]]


def test_what_is_refused_parts_a_line() -> None:
    reads = {"a": "", "x": "a", "b": "x"}
    assert merge_acyclic("axb", reads, set("ab")) == [["a"], ["b"]]


def test_a_branch_through_what_is_refused_keeps_the_branches_apart() -> None:
    # c adds a and the result of x on a. A region with a and c would wait for x, which waits for it.
    reads = {"a": "", "x": "a", "c": "ax"}
    assert merge_acyclic("axc", reads, set("ac")) == [["a"], ["c"]]


def test_a_branch_that_leaves_for_good_parts_nothing() -> None:
    reads = {"a": "", "x": "a", "b": "a", "c": "ab"}
    assert merge_acyclic("axbc", reads, set("abc")) == [["a", "b", "c"]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, list[int]], set[int]]:
    count = draw(st.integers(1, 12))
    reads = {
        i: sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else []
        for i in range(count)
    }
    return reads, draw(st.sets(st.integers(0, count - 1)))


@given(graphs())
def test_no_region_waits_for_itself(graph: tuple[dict[int, list[int]], set[int]]) -> None:
    reads, taken = graph
    regions = merge_acyclic(list(reads), reads, taken)
    assert sorted(n for region in regions for n in region) == sorted(taken)
    home = {node: node for node in reads} | {n: region[0] for region in regions for n in region}
    contracted: dict[int, set[int]] = {home[n]: set() for n in reads}
    for node, producers in reads.items():
        contracted[home[node]] |= {home[p] for p in producers} - {home[node]}
    list(TopologicalSorter(contracted).static_order())  # raises CycleError
