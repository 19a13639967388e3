"""Mean average precision: whether a detector's scores rank right boxes before wrong ones.

A found box is right if it overlaps an expected box of its class that no box of a higher score has
taken. Of several it takes the one that it overlaps most, as COCO's evaluation does (pycocotools).
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


def compute_mean_average_precision(found: Samples, expected: Samples, iou: float) -> float:
    """Return the mean of the average precision over the expected classes, 0 to 1.

    Boxes are the same from an intersection over union of ``iou`` on. 1 where no box is expected.
    """
    classes = sorted({box.class_index for boxes in expected for box in boxes})
    if not classes:
        return 1.0
    return fmean(
        compute_average_precision(select_class(found, index), select_class(expected, index), iou)
        for index in classes
    )


def select_class(samples: Samples, index: int) -> Samples:
    return [[box for box in boxes if box.class_index == index] for boxes in samples]


def compute_average_precision(found: Samples, expected: Samples, iou: float) -> float:
    """Return the area under precision over recall for boxes of one class.

    The precision at a recall is the best at this or any higher recall. Boxes of equal score keep
    their order and that of the samples.
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
