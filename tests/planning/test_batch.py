"""The largest batch that fits, and what a user is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright.errors import UserError
from firmwright.planning.batch import choose_batch
from firmwright.toolchain import load_platform

RV32 = load_platform("rv32-bare")
CAPACITY = RV32.memories["ram"].size


def linear(size: int) -> int:
    return RV32.stack + 100_000 * size


def test_the_largest_that_fits() -> None:
    choice = choose_batch(16, False, RV32, linear)
    assert choice.actual_batch_size == 10
    assert choice.needs <= CAPACITY < (choice.next_needs or 0)
    assert str(choice) == (
        "batch 16 wanted, 10 fits (ram: 1,016,384 of 1,048,576 bytes; 11 would need 1,116,384)"
    )


def test_all_that_is_wanted() -> None:
    choice = choose_batch(4, True, RV32, linear)
    assert (choice.actual_batch_size, choice.next_needs) == (4, None)


@pytest.mark.parametrize("bend", [-30_000, 30_000])
def test_memory_that_does_not_grow_in_proportion(bend: int) -> None:
    def bent(size: int) -> int:
        return linear(size) + bend * (size - 1)

    actual = choose_batch(1000, False, RV32, bent).actual_batch_size
    assert bent(actual) <= CAPACITY < bent(actual + 1)


def test_a_thousand_million_is_searched_at_once() -> None:
    tried: list[int] = []

    def counted(size: int) -> int:
        tried.append(size)
        return linear(size)

    assert choose_batch(10**9, False, RV32, counted).actual_batch_size == 10
    assert len(tried) < 8


def test_fewer_than_required_fails() -> None:
    with pytest.raises(UserError, match=r"batch 16 wanted, 10 fits .* requires all 16"):
        choose_batch(16, True, RV32, linear)


def test_without_memories_the_width_of_an_index_is_the_limit() -> None:
    host = replace(RV32, memories={}, stack=0)
    choice = choose_batch(10**9, False, host, lambda size: 1000 * size)
    assert choice.actual_batch_size == (2**31 - 1) // 1000
