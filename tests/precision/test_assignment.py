"""Assignments come in the order of their errors, as a comparison of all combinations shows."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest

from firmwright.precision.best_choices import (
    MOST_CELLS,
    Choice,
    count_bytes,
    list_assignments,
    remove_inferior,
)


def make_choices(seed: int, layers: int, most: int = 40) -> list[list[Choice]]:
    make = np.random.default_rng(seed)
    return [
        [Choice(f"int{n}", int(make.integers(most)), float(make.random())) for n in range(4)]
        for _ in range(layers)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_equals_the_order_of_all_combinations(seed: int) -> None:
    choices = make_choices(seed, 4)
    limit = int(np.random.default_rng(seed).integers(10, 140))
    wanted = sorted(
        sum(one.error for one in each) for each in product(*choices) if count_bytes(each) <= limit
    )
    found = [*list_assignments(choices, limit)]
    assert [sum(one.error for one in each) for each in found] == pytest.approx(wanted)
    assert len(set(found)) == len(found)
    assert all(count_bytes(each) <= limit for each in found)


def test_a_limit_below_all_assignments_has_none() -> None:
    choices = [[Choice("int4", 10, 1.0)], [Choice("int4", 5, 1.0)]]
    assert len([*list_assignments(choices, 15)]) == 1
    assert [*list_assignments(choices, 14)] == [*list_assignments(choices, -1)] == []


def test_a_large_limit_is_kept_although_bytes_are_rounded() -> None:
    choices = make_choices(3, 30, most=10**7)
    limit = sum(min(one.bytes for one in each) for each in choices) * 3 // 2
    assert limit > MOST_CELLS
    found = [*islice(list_assignments(choices, limit), 3)]
    assert len(found) == 3
    assert all(0.9 * limit < count_bytes(each) <= limit for each in found)


def test_choices_with_more_bytes_and_more_error_are_removed() -> None:
    small, large = Choice("int2", 1, 3.0), Choice("int8", 4, 0.5)
    worse = Choice("int4", 3, 3.5), Choice("int16", 8, 0.5)
    assert remove_inferior([*worse, large, small]) == [small, large]
