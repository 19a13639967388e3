"""The cheapest combination of choices, compared with all combinations of random graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from firmwright.partition.cheapest import (
    Table,
    TooManyCombinationsError,
    find_cheapest,
)


def random_tables(seed: int) -> tuple[dict[int, int], list[Table]]:
    """Return up to seven nodes with two or three choices, and costs of up to three nodes each."""
    random = np.random.default_rng(seed)
    counts = {node: int(random.integers(2, 4)) for node in range(int(random.integers(1, 8)))}
    tables = []
    for _ in range(int(random.integers(1, 12))):
        size = int(random.integers(1, min(3, len(counts)) + 1))
        nodes = tuple(int(n) for n in random.permutation(len(counts))[:size])
        costs = random.integers(0, 20, [counts[n] for n in nodes]).astype(float)
        costs[random.random(costs.shape) < 0.1] = np.inf
        tables.append(Table(nodes, costs))
    return counts, tables


def sum_tables(tables: list[Table], chosen: dict[int, int]) -> float:
    return sum(float(t.costs[tuple(chosen[n] for n in t.nodes)]) for t in tables)


@pytest.mark.parametrize("seed", range(200))
def test_no_combination_costs_less(seed: int) -> None:
    counts, tables = random_tables(seed)
    chosen = find_cheapest(counts, tables)
    every = [dict(zip(counts, each, strict=True)) for each in product(*map(range, counts.values()))]
    assert sum_tables(tables, chosen) == min(sum_tables(tables, each) for each in every)
    assert chosen == find_cheapest(counts, tables)


def test_equal_costs_select_the_first_choices() -> None:
    same = Table((0, 1), np.zeros((2, 3)))
    assert find_cheapest({0: 2, 1: 3, 2: 2}, [same]) == {0: 0, 1: 0, 2: 0}


def test_a_long_chain_has_small_tables() -> None:
    differs = np.array([[0.0, 5.0], [5.0, 0.0]])
    tables = [Table((n, n + 1), differs) for n in range(299)]
    tables += [Table((0,), np.array([0.0, 3.0])), Table((299,), np.array([4.0, 0.0]))]
    assert set(find_cheapest(dict.fromkeys(range(300), 2), tables).values()) == {1}


def test_nodes_that_all_depend_on_each_other_are_too_many() -> None:
    pairs = [Table((a, b), np.eye(2)) for a in range(24) for b in range(a)]
    with pytest.raises(TooManyCombinationsError):
        find_cheapest(dict.fromkeys(range(24), 2), pairs)
