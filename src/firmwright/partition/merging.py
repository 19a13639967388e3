"""Merges the nodes that a device accepts into the fewest regions that can run in sequence."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def merge_acyclic(
    nodes: Sequence[Node], reads: Mapping[Node, Sequence[Node]], taken: set[Node]
) -> list[list[Node]]:
    """Return the nodes of ``taken`` as regions, in the order of ``nodes``.

    ``nodes`` are in an order of execution. ``reads`` maps each node to the nodes whose results it
    reads. Two regions are merged if one reads the other and no path between the regions passes
    through a third region. With a path through a third region, each of the two regions would wait
    for the other.
    """
    region_of = {node: {node} for node in nodes}
    for node in nodes:
        for producer in reads[node]:
            first, second = region_of[producer], region_of[node]
            if not {node, producer} <= taken or first is second:
                continue
            if not has_detour(first, second, region_of, reads):
                first |= second
                region_of.update(dict.fromkeys(second, first))
    order = {node: position for position, node in enumerate(nodes)}
    unique = {id(region_of[node]): region_of[node] for node in nodes if node in taken}
    return [sorted(region, key=order.__getitem__) for region in unique.values()]


def has_detour(
    first: set[Node],
    second: set[Node],
    region_of: Mapping[Node, set[Node]],
    reads: Mapping[Node, Sequence[Node]],
) -> bool:
    """Return whether a path leads from ``first`` to ``second`` through a third region."""
    waiting = [p for node in second for p in reads[node] if p not in first and p not in second]
    seen: set[int] = set()
    while waiting:
        region = region_of[waiting.pop()]
        if region is first:
            return True
        if region is not second and id(region) not in seen:
            seen.add(id(region))
            waiting += [p for node in region for p in reads[node]]
    return False
