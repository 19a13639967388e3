"""Ties, NaN and infinity, and too little room: generated C equals numpy, box for box."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmwright.postprocess.boxes import Box, compute_iou, match_boxes
from firmwright.postprocess.numpy_detection import detect
from firmwright.recipe.postprocess import Confidence

from .compiled import CompiledDetector, list_detector

NAN, INF = float("nan"), float("inf")
NOTHING = [0, 0, 4, 4, 0, 0, 0, 0]
NAN_CELL = [0, 0, 4, 4, 1, NAN, NAN, NAN]


def row(x0: float, y0: float, x1: float, y1: float, *scores: float) -> list[float]:
    return [x0, y0, x1, y1, *scores]


def output(*rows: list[float]) -> np.ndarray:
    filled = [*rows, *[NOTHING] * (6 - len(rows))]
    return np.array([filled], "float32")


def both(
    compiled: CompiledDetector, rows: np.ndarray, candidates: int = 256, **changes: Any
) -> list[Box]:
    (found,) = compiled.detect([[rows]], candidates)
    assert found == detect(list_detector(candidates, **changes), [rows])
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledDetector:
    return CompiledDetector(list_detector(), tmp_path_factory.mktemp("list"))


def test_nothing_above_the_threshold(compiled: CompiledDetector) -> None:
    assert both(compiled, output()) == []


def test_identical_boxes_leave_one(compiled: CompiledDetector) -> None:
    same = row(0, 0, 8, 8, 1, 0, 0.5, 0)
    assert both(compiled, output(*[same] * 6)) == [Box(0, 0, 0.125, 0.25, 0.5, 1)]


def test_a_threshold_that_is_just_met_counts(compiled: CompiledDetector) -> None:
    assert len(both(compiled, output(row(0, 0, 8, 8, 1, 0.25, 0, 0)))) == 1
    assert both(compiled, output(row(0, 0, 8, 8, 1, 0.2499, 0, 0))) == []


def test_an_overlap_of_just_the_limit_stays(compiled: CompiledDetector) -> None:
    # Two thirds of either box: 8 of 12 columns, an overlap of 8/16 = 0.5 exactly.
    first, second = row(0, 0, 12, 8, 1, 1, 0, 0), row(4, 0, 16, 8, 1, 0.5, 0, 0)
    assert len(both(compiled, output(first, second))) == 2
    nearer = row(3, 0, 15, 8, 1, 0.5, 0, 0)
    assert len(both(compiled, output(first, nearer))) == 1


def test_other_classes_do_not_compete_unless_asked(
    compiled: CompiledDetector, tmp_path: Path
) -> None:
    rows = output(row(0, 0, 8, 8, 1, 1, 0, 0), row(0, 0, 8, 8, 1, 0, 0.5, 0))
    assert len(both(compiled, rows)) == 2
    agnostic = CompiledDetector(list_detector(per_class=False), tmp_path)
    assert len(both(agnostic, rows, per_class=False)) == 1


def test_equal_scores_keep_the_order_of_the_cells(compiled: CompiledDetector) -> None:
    rows = output(*[row(8 * i, 0, 8 * i + 8, 8, 1, 0.5, 0.5, 0) for i in range(6)])
    found = both(compiled, rows)
    assert [b.x0 * 64 for b in found] == [0, 8, 16, 24, 32, 40]
    assert {b.class_index for b in found} == {0}


def test_with_little_room_the_highest_scores_stay(compiled: CompiledDetector) -> None:
    scores = (0.5, 0.75, 0.25, 1, 0.5, 0.375)
    rows = output(*[row(8 * i, 0, 8 * i + 8, 8, 1, s, 0, 0) for i, s in enumerate(scores)])
    for room in range(1, 7):
        found = both(compiled, rows, room)
        assert [b.score for b in found] == sorted(scores, reverse=True)[:room]
    assert [b.x0 * 64 for b in both(compiled, rows, 3)] == [24, 8, 0]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_not_finite_is_no_box(compiled: CompiledDetector, bad: float) -> None:
    good = row(0, 0, 8, 8, 1, 0.5, 0, 0)
    for place in (0, 1, 2, 3, 4):
        spoilt = list(good)
        spoilt[place] = bad
        assert both(compiled, output(spoilt)) == []
    # A class that is NaN loses against a number; an infinite class invalidates the cell.
    found = both(compiled, output(row(0, 0, 8, 8, 1, bad, 0.5, 0)))
    assert [b.class_index for b in found] == ([] if bad == INF else [1])
    assert both(compiled, output(row(0, 0, 8, 8, 1, bad, bad, bad))) == []


def test_an_infinite_class_is_none_though_its_sigmoid_is_one(tmp_path: Path) -> None:
    change: dict[str, Any] = {"class_scores": Confidence(5, "sigmoid")}
    program = CompiledDetector(list_detector(**change), tmp_path)
    assert both(program, output(row(0, 0, 8, 8, 1, INF, 0, 0), *[NAN_CELL] * 5), **change) == []
    assert len(both(program, output(row(0, 0, 8, 8, 1, 99, 0, 0), *[NAN_CELL] * 5), **change)) == 1


def test_a_box_without_area_is_none(compiled: CompiledDetector) -> None:
    for corners in ((8, 0, 0, 8), (0, 8, 8, 0), (4, 0, 4, 8), (0, 4, 8, 4), (8, 8, 0, 0)):
        assert both(compiled, output(row(*corners, 1, 1, 0, 0))) == []


COORDINATES = st.sampled_from([-4.0, 0.0, 4.0, 8.0, 12.0, 64.0, 3e38, -3e38, NAN, INF, -INF])
SMALL = st.sampled_from([0.0, 4.0, 8.0, 12.0, 16.0])
SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, 2.0, -1.0, NAN, INF, -INF])
CORNERS = st.one_of(st.tuples(*[SMALL] * 4), st.tuples(*[COORDINATES] * 4))
ROWS = st.tuples(CORNERS, st.tuples(*[SCORES] * 4)).map(lambda pair: [*pair[0], *pair[1]])
VARIANTS = list(product((0.0, 0.25, 0.5, 1.0), (True, False)))


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> list[CompiledDetector]:
    return [
        CompiledDetector(
            list_detector(iou=iou, per_class=per_class), tmp_path_factory.mktemp("variant")
        )
        for iou, per_class in VARIANTS
    ]


@settings(max_examples=60, deadline=None)
@given(
    samples=st.lists(st.lists(ROWS, min_size=6, max_size=6), min_size=1, max_size=30),
    variant=st.integers(0, len(VARIANTS) - 1),
    room=st.integers(1, 8),
)
def test_any_list_of_boxes(
    variants: list[CompiledDetector], samples: list[list[list[float]]], variant: int, room: int
) -> None:
    iou, per_class = VARIANTS[variant]
    detector = list_detector(room, iou=iou, per_class=per_class)
    arrays = [np.array([rows], "float32") for rows in samples]
    found = variants[variant].detect([[a] for a in arrays], room)
    assert found == [detect(detector, [a]) for a in arrays]


def test_matching_gives_every_box_once() -> None:
    near, far = Box(0, 0, 0.5, 0.5, 0.9, 0), Box(0.5, 0.5, 1, 1, 0.8, 0)
    moved = Box(0.01, 0, 0.51, 0.5, 0.7, 0)
    assert compute_iou(near, moved) == pytest.approx(0.49 / 0.51)
    matching = match_boxes([moved, near], [near, near, far], 0.9)
    assert matching.pairs == ((near, near), (moved, near))
    assert (matching.missing, matching.unexpected) == ((far,), ())
    other_class = Box(0, 0, 0.5, 0.5, 0.9, 1)
    assert match_boxes([other_class], [near], 0.9).unexpected == (other_class,)
    assert match_boxes([moved], [near], 0.97).missing == (near,)
