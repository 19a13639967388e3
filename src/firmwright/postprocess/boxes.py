"""Boxes, how much they overlap, and which of two detections are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    """An object: left, top, right, bottom as parts of the picture (0 to 1), score and class."""

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


def match_boxes(found: Sequence[Box], expected: Sequence[Box], iou: float) -> BoxMatches:
    """Pair each expected box, in order, with the found one of its class that overlaps it most.

    Only boxes with an intersection over union of at least ``iou`` match, each at most once.
    """
    left = list(found)
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
