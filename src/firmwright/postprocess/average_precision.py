"""Mean average precision: whether a detector's scores put right boxes before wrong ones.

A found box is right if it overlaps an expected one of its class that no box of a higher score has
taken; of several it takes the one that it overlaps most, as in COCO's evaluation (pycocotools).
The area under precision over recall is computed at all points, as in VOC since 2010 (Everingham,
Winn: The PASCAL Visual Object Classes Challenge 2010 Development Kit, section 3.4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean

from firmwright.postprocess.boxes import Box, compute_iou

Samples = Sequence[Sequence[Box]]
"""The boxes of each sample."""


def mean_average_precision(found: Samples, expected: Samples, iou: float) -> float:
    """Return the mean of the average precision over the classes that are expected, 0 to 1.

    Boxes are the same from an overlap of ``iou`` on. 1 where nothing is expected.
    """
    classes = sorted({box.class_index for boxes in expected for box in boxes})
    if not classes:
        return 1.0
    return fmean(
        average_precision(select_class(found, index), select_class(expected, index), iou)
        for index in classes
    )


def select_class(samples: Samples, index: int) -> Samples:
    return [[box for box in boxes if box.class_index == index] for boxes in samples]


def average_precision(found: Samples, expected: Samples, iou: float) -> float:
    """Return the area under precision over recall for boxes of one class.

    Precision at a recall is the best that is reached at this or a higher one. Boxes of equal score
    keep their order, and that of the samples.
    """
    ranked = [(box, sample) for sample, boxes in enumerate(found) for box in boxes]
    ranked.sort(key=lambda entry: -entry[0].score)
    left = [list(boxes) for boxes in expected]
    precisions: list[float] = []
    for rank, (box, sample) in enumerate(ranked, start=1):
        same = [other for other in left[sample] if compute_iou(box, other) >= iou]
        if same:
            left[sample].remove(max(same, key=lambda other: compute_iou(box, other)))
            precisions.append((len(precisions) + 1) / rank)
    return sum(accumulate(reversed(precisions), max)) / sum(map(len, expected))
