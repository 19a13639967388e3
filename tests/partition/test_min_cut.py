"""The minimum cut of a graph, compared with all cuts."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from firmwright.partition.layouts import UNCUTTABLE, find_source_side

Edges = list[tuple[int, int, int]]


def find_cost(edges: Edges, side: Collection[Hashable]) -> int:
    return sum(cost for start, end, cost in edges if start in side and end not in side)


def test_a_path_that_was_taken_is_given_back() -> None:
    """The shortest path s-a-b-t uses both bridges; the largest flow needs a-b in reverse."""
    edges = [("s", "a", 1), ("a", "b", 1), ("b", "t", 1)]
    edges += [("s", "c", 1), ("c", "d", 1), ("d", "b", 1), ("a", "e", 1), ("e", "f", 1)]
    edges += [("f", "g", 1), ("g", "t", 1)]
    assert find_source_side(edges, "s", "t") == {"s"}


def test_of_several_cheapest_cuts_the_smaller_side_is_returned() -> None:
    assert find_source_side([("s", "a", 3), ("a", "b", 3), ("b", "t", 3)], "s", "t") == {"s"}


def test_costs_of_parallel_edges_add_up() -> None:
    edges = [("s", "a", 2), ("s", "a", 2), ("a", "t", 3)]
    assert find_source_side(edges, "s", "t") == {"s", "a"}


def test_an_edge_is_cut_in_its_direction_alone() -> None:
    assert find_source_side([("s", "a", 1), ("t", "a", 5), ("a", "t", 2)], "s", "t") == {"s"}


def test_no_cut_takes_an_uncuttable_edge() -> None:
    edges = [("s", "a", UNCUTTABLE), ("a", "b", 9), ("b", "t", UNCUTTABLE)]
    assert find_source_side(edges, "s", "t") == {"s", "a"}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4)), max_size=14))
def test_no_cut_is_cheaper_and_none_of_its_cost_is_smaller(edges: Edges) -> None:
    side = find_source_side(edges, 0, 5)
    others = [{0, *rest} for n in range(5) for rest in combinations(range(1, 5), n)]
    least = min(find_cost(edges, other) for other in others)
    assert find_cost(edges, side) == least
    for other in others:
        if find_cost(edges, other) == least:
            assert side <= other
