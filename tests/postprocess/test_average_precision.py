"""Mean average precision, compared with values computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firmwright.postprocess.boxes import Box, compute_mean_average_precision


def box(place: float, score: float = 1.0, class_index: int = 0) -> Box:
    """Return a box of a tenth of the picture's width; whole places are one width apart."""
    return Box(place / 10, 0, (place + 1) / 10, 1, score, class_index)


LABELS = [[box(0), box(1)], [box(2)]]

CASES: dict[str, tuple[list[list[Box]], float]] = {
    "all in front of what is wrong": ([[box(0, 0.9), box(1, 0.8), box(5, 0.6)], [box(2, 0.7)]], 1),
    # Right, wrong, right, wrong; the third label is not found: precision 1 / 1 and 2 / 3.
    "one missing": ([[box(0, 0.9), box(5, 0.8)], [box(2, 0.7), box(6, 0.6)]], (1 + 2 / 3) / 3),
    # Wrong, right, right, right: 1 / 2, 2 / 3, 3 / 4; the last value is the best for all.
    "interpolated": ([[box(0, 0.8), box(1, 0.7)], [box(6, 0.9), box(2, 0.6)]], 3 / 4),
    # The second box on one object is wrong: 1 / 1, then 2 / 3 and 3 / 4, the best of both.
    "twice the same": ([[box(0, 0.9), box(0, 0.8), box(1, 0.7)], [box(2, 0.6)]], (1 + 3 / 2) / 3),
    "in the wrong sample": ([[box(2, 0.9)], [box(0, 0.9), box(1, 0.8)]], 0),
    "nothing found": ([[], []], 0),
    "equal scores in the order of the samples": ([[box(5), box(0), box(1)], [box(2)]], 3 / 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_class(name: str) -> None:
    found, expected = CASES[name]
    assert compute_mean_average_precision(found, LABELS, 0.5) == pytest.approx(expected, abs=1e-12)


def test_mean_over_the_classes_that_are_expected() -> None:
    labels = [[box(0, class_index=1), box(1, class_index=4)]]
    found = [[box(0, 0.9, 1), box(3, 0.8, 2)]]  # class 2 has no label, class 4 is not found
    assert compute_mean_average_precision(found, labels, 0.5) == 1 / 2


@pytest.mark.parametrize("found", [[[]], [[box(0)]]])
def test_nothing_expected(found: Sequence[Sequence[Box]]) -> None:
    assert compute_mean_average_precision(found, [[]], 0.5) == 1


@pytest.mark.parametrize(("iou", "expected"), [(0.6, 1), (0.7, 0)])
def test_overlap_that_counts(iou: float, expected: float) -> None:
    found = [[box(0.2, 0.9)]]  # overlap 0.8 of 1.2
    assert compute_mean_average_precision(found, [[box(0)]], iou) == expected


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("second", "expected"),
    [(0.7, 1), (0.15, 1), (-0.1, 1 / 2)],  # other label; matched one more; matched one only
)
def test_a_box_takes_what_it_overlaps_most_and_the_next_what_is_left(
    order: int, second: float, expected: float
) -> None:
    labels = [[box(0), box(0.4)][::order]]
    found = [[box(0.1, 0.9), box(second, 0.8)]]  # the first overlaps both, by 0.82 and 0.54
    assert compute_mean_average_precision(found, labels, 0.5) == expected
