"""The largest batch that fits, and its message to the user."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firmwright.errors import UserError
from firmwright.planning import MemoryUse
from firmwright.planning.batch_size import choose_batch

CAPACITY = 1024 * 1024
Needs = Callable[[int], int]


def ram(needs: Needs) -> Callable[[int], list[MemoryUse]]:
    return lambda size: [MemoryUse("ram", needs(size), CAPACITY)]


def linear(size: int) -> int:
    return 16_384 + 100_000 * size


def test_the_largest_that_fits() -> None:
    choice = choose_batch(16, False, ram(linear))
    assert choice.actual_batch_size == 10
    assert choice.needs <= CAPACITY < (choice.next_needs or 0)
    assert str(choice) == (
        "batch 16 wanted, 10 fits (ram: 1,016,384 of 1,048,576 bytes; 11 would need 1,116,384)"
    )


def test_all_that_is_wanted() -> None:
    choice = choose_batch(4, True, ram(linear))
    assert (choice.actual_batch_size, choice.next_needs) == (4, None)


def test_the_memory_that_is_full_first_decides() -> None:
    def uses(size: int) -> list[MemoryUse]:
        return [MemoryUse("ram", 100 * size, CAPACITY), MemoryUse("L2", 30 * size, 1000)]

    assert str(choose_batch(64, False, uses)) == (
        "batch 64 wanted, 33 fits (L2: 990 of 1,000 bytes; 34 would need 1,020)"
    )
    assert choose_batch(3, False, uses).memory == "L2"


@pytest.mark.parametrize("bend", [-30_000, 30_000])
def test_memory_that_does_not_grow_in_proportion(bend: int) -> None:
    def bent(size: int) -> int:
        return linear(size) + bend * (size - 1)

    actual = choose_batch(1000, False, ram(bent)).actual_batch_size
    assert bent(actual) <= CAPACITY < bent(actual + 1)


@pytest.mark.parametrize(
    "needs",
    [
        linear,
        lambda size: max(500_000 + size, 1000 * size),  # at first, scratch memory is larger
        lambda size: 100 * size if size > 4 else 200_000 * size,
    ],
)
def test_a_thousand_million_is_searched_at_once(needs: Needs) -> None:
    tried: list[int] = []

    def counted(size: int) -> int:
        tried.append(size)
        return needs(size)

    actual = choose_batch(10**9, False, ram(counted)).actual_batch_size
    assert needs(actual) <= CAPACITY < needs(actual + 1)
    assert len(tried) < 50


def test_fewer_than_required_fails() -> None:
    with pytest.raises(UserError, match=r"batch 16 wanted, 10 fits .* requires all 16"):
        choose_batch(16, True, ram(linear))
