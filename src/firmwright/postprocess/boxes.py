"""Defines boxes and their overlap, and matches two lists of detections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean


@dataclass(frozen=True)
class Box:
    """An object: left, top, right, bottom as fractions of the picture (0 to 1), score, class."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float
    class_index: int


def compute_iou(a: Box, b: Box) -> float:
    """Return the intersection over the union of two boxes, 0 to 1."""
    width = min(a.x1, b.x1) - max(a.x0, b.x0)
    height = min(a.y1, b.y1) - max(a.y0, b.y0)
    if width <= 0 or height <= 0:
        return 0.0
    common = width * height
    both = (a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - common
    return common / both


@dataclass(frozen=True)
class BoxMatches:
    """Pairs of (found, expected) boxes of one class, and the boxes without a counterpart."""

    pairs: tuple[tuple[Box, Box], ...]
    missing: tuple[Box, ...]
    unexpected: tuple[Box, ...]


def match_boxes(detected: Sequence[Box], expected: Sequence[Box], iou: float) -> BoxMatches:
    """Pair each expected box, in order, with the found box of its class that overlaps it most.

    Only boxes with an intersection over union of at least ``iou`` match. Each box matches at most
    once.
    """
    left = list(detected)
    pairs, missing = [], []
    for box in expected:
        same = [c for c in left if c.class_index == box.class_index and compute_iou(c, box) >= iou]
        if not same:
            missing.append(box)
            continue
        best = max(same, key=lambda c: compute_iou(c, box))
        left.remove(best)
        pairs.append((best, box))
    return BoxMatches(tuple(pairs), tuple(missing), tuple(left))


Samples = Sequence[Sequence[Box]]


def compute_mean_average_precision(detected: Samples, expected: Samples, iou: float) -> float:
    """Return the mean of the average precision over the expected classes, 0 to 1.

    A found box is correct if its intersection over union with an expected box of its class is at
    least ``iou``. Found boxes are matched in the order of their scores. The match is the expected
    box with the largest overlap, as in COCO's evaluation (pycocotools). The result is 1 if no box
    is expected.
    """
    classes = sorted({box.class_index for boxes in expected for box in boxes})
    if not classes:
        return 1.0
    return fmean(
        compute_average_precision(select_class(detected, index), select_class(expected, index), iou)
        for index in classes
    )


def select_class(samples: Samples, index: int) -> Samples:
    return [[box for box in boxes if box.class_index == index] for boxes in samples]


def compute_average_precision(detected: Samples, expected: Samples, iou: float) -> float:
    """Return the area under precision over recall for boxes of one class.

    The precision at a recall is the maximum precision at this or any higher recall. Boxes with
    equal scores keep the order of the samples and of the boxes. The area is computed at all points,
    as in VOC since 2010 (Everingham, Winn: The PASCAL Visual Object Classes Challenge 2010
    Development Kit, 3.4.1).
    """
    ranked = [(box, sample) for sample, boxes in enumerate(detected) for box in boxes]
    ranked.sort(key=lambda entry: -entry[0].score)
    left = [list(boxes) for boxes in expected]
    precisions: list[float] = []
    for rank, (box, sample) in enumerate(ranked, start=1):
        same = [other for other in left[sample] if compute_iou(box, other) >= iou]
        if same:
            left[sample].remove(max(same, key=lambda other: compute_iou(box, other)))
            precisions.append((len(precisions) + 1) / rank)
    return sum(accumulate(reversed(precisions), max)) / sum(map(len, expected))
