"""Finds the cheapest way to cut a graph in two (Ford and Fulkerson; shortest paths first)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise

Node = Hashable

UNCUTTABLE = 1 << 62
"""The cost of an edge that a cut must not contain."""


def find_source_side(
    edges: Iterable[tuple[Node, Node, int]], source: Node, sink: Node
) -> set[Node]:
    """Return the side of the cheapest cut between two nodes that contains the source.

    Among several cheapest cuts, the result is from the cut with the smallest source side. ``edges``
    are (from, to, cost); a cut costs the sum of its edges from the source's side to the other side.
    """
    free: dict[Node, dict[Node, int]] = defaultdict(lambda: defaultdict(int))
    for start, end, cost in edges:
        free[start][end] += cost
        free[end][start] += 0
    while True:
        reached = search_breadth_first(free, source)
        if sink not in reached:
            return set(reached)
        path = [sink]
        while path[-1] != source:
            path.append(reached[path[-1]])
        steps = [(start, end) for end, start in pairwise(path)]
        flow = min(free[start][end] for start, end in steps)
        for start, end in steps:
            free[start][end] -= flow
            free[end][start] += flow


def search_breadth_first(free: Mapping[Node, Mapping[Node, int]], source: Node) -> dict[Node, Node]:
    """Return each node that can be reached over free edges, and the node before it on the path."""
    before = {source: source}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for following, room in free[node].items():
            if room > 0 and following not in before:
                before[following] = node
                waiting.append(following)
    return before
