"""The elements of a tensor that one element of a smaller tensor multiplies."""

from __future__ import annotations

import pytest

from firmwright.lowering.pairs import count_neighbors


@pytest.mark.parametrize(
    ("small", "large", "neighbors"),
    [
        ((1, 4, 8), (1, 4, 8), 1),
        ((8,), (1, 4, 8), 1),
        ((1, 4, 1), (1, 4, 8), 8),
        ((4, 1, 1), (2, 4, 3, 8), 24),
        ((1,), (1, 4, 8), 32),
        ((2, 1, 8), (2, 4, 8), 0),
        ((1, 4), (1, 4, 8), 0),
        ((1, 4), (4,), 1),
    ],
)
def test_neighbors_of_a_repeated_tensor(
    small: tuple[int, ...], large: tuple[int, ...], neighbors: int
) -> None:
    assert count_neighbors(small, large) == neighbors
