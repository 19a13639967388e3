"""Finds the cheapest combination of choices by dynamic programming, one node after the other.

The cost of a combination is a sum of tables. Each table has costs for the choices of a few nodes.
To eliminate a node, one table over its neighbors replaces the node's tables. This table has the
minimum cost over the node's choices. The result is exact. The tables stay small for graphs in which
few tensors are alive at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

LARGEST_TABLE = 1 << 18
"""The maximum number of combinations in a table."""


class TooManyCombinationsError(Exception):
    """Raised if a table would be larger than LARGEST_TABLE."""


@dataclass(frozen=True)
class Table:
    """The costs of the choices of ``nodes``. There is one axis per node."""

    nodes: tuple[int, ...]
    costs: npt.NDArray[Any]


def find_cheapest(counts: Mapping[int, int], tables: Iterable[Table]) -> dict[int, int]:
    """Return the choice of each node that minimizes the sum of all tables.

    ``counts`` has the number of choices of each node, at least two. The first choice of a node is
    used if costs are equal. Raises TooManyCombinationsError.
    """
    left = list(tables)
    neighbors: dict[int, set[int]] = {node: set() for node in counts}
    for table in left:
        for node in table.nodes:
            neighbors[node].update(table.nodes)
    steps: list[tuple[int, tuple[int, ...], npt.NDArray[Any]]] = []
    while neighbors:
        node = min(neighbors, key=lambda n: (prod(counts[m] for m in neighbors[n]), n))
        others = tuple(sorted(neighbors.pop(node) - {node}))
        joined = join_tables([t for t in left if node in t.nodes], (node, *others), counts)
        left = [t for t in left if node not in t.nodes]
        left.append(Table(others, joined.min(axis=0)))
        steps.append((node, others, joined.argmin(axis=0)))
        for other in others:
            neighbors[other] = (neighbors[other] | {*others}) - {node}
    chosen: dict[int, int] = {}
    for node, others, best in reversed(steps):
        chosen[node] = int(best[tuple(chosen[other] for other in others)])
    return chosen


def join_tables(
    tables: Sequence[Table], nodes: tuple[int, ...], counts: Mapping[int, int]
) -> npt.NDArray[Any]:
    """Return the sum of tables as a table over ``nodes``, which include the nodes of all tables."""
    shape = tuple(counts[node] for node in nodes)
    if prod(shape) > LARGEST_TABLE:
        raise TooManyCombinationsError
    total = np.zeros(shape)
    for table in tables:
        order = [table.nodes.index(node) for node in nodes if node in table.nodes]
        sizes = [counts[node] if node in table.nodes else 1 for node in nodes]
        total += table.costs.transpose(order).reshape(sizes)
    return total
