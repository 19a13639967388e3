"""The boxes of a run, judged (file ``run/boxes.json``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmwright.errors import UserError
from firmwright.postprocess.boxes import Box, compute_iou, match_boxes

AGREEMENT_IOU = 0.9
"""Intersection over union from which on a box counts as the one that the reference has."""


@dataclass(frozen=True)
class FoundBox:
    """A box of the firmware: corners as parts of the picture, and how far the reference's is.

    ``reference_iou`` is the overlap with the reference's box, ``reference_score`` that one's score.
    """

    class_name: str
    class_index: int
    score: float
    x0: float
    y0: float
    x1: float
    y1: float
    reference_score: float
    reference_iou: float


@dataclass(frozen=True)
class SampleBoxes:
    """One sample: what it is called, the SHA-256 of its data by input, and its boxes."""

    sample: str
    sha256: dict[str, str]
    boxes: tuple[FoundBox, ...]


@dataclass(frozen=True)
class DetectionReport:
    """All samples of a run. ``threshold`` is the lowest score of a box.

    ``judge`` is whose boxes the firmware has: the network in its reference runtime, or, where
    the recipe quantizes it, the float network.
    """

    threshold: float
    agreement_iou: float
    judge: str
    samples: tuple[SampleBoxes, ...]


def match_samples(
    judge: str,
    labels: Sequence[str],
    digests: Sequence[dict[str, str]],
    names: Sequence[str],
    found: Sequence[Sequence[Box]],
    expected: Sequence[Sequence[Box]],
) -> tuple[SampleBoxes, ...]:
    """Pair the firmware's boxes with those that ``judge`` expects, sample by sample.

    Raises UserError naming every box that has no counterpart, whichever side it is on.
    """
    problems: list[str] = []
    samples = []
    for label, digest, ours, theirs in zip(labels, digests, found, expected, strict=True):
        matching = match_boxes(ours, theirs, AGREEMENT_IOU)
        problems += [f"{label}: only the judge has {describe(b, names)}" for b in matching.missing]
        problems += [
            f"{label}: only the firmware has {describe(b, names)}" for b in matching.unexpected
        ]
        boxes = tuple(
            FoundBox(
                names[a.class_index], a.class_index, a.score, a.x0, a.y0, a.x1, a.y1,
                b.score, compute_iou(a, b),
            )
            for a, b in sorted(matching.pairs, key=lambda pair: -pair[0].score)
        )  # fmt: skip
        samples.append(SampleBoxes(label, digest, boxes))
    if problems:
        text = "\n".join(f"  {p}" for p in problems)
        raise UserError(
            f"the firmware's boxes are not those of the judge, {judge} (same class, intersection "
            f"over union of {AGREEMENT_IOU} or more):\n{text}"
        )
    return tuple(samples)


def describe(box: Box, names: Sequence[str]) -> str:
    corners = ", ".join(f"{v:.4f}" for v in (box.x0, box.y0, box.x1, box.y1))
    return f"'{names[box.class_index]}' with score {box.score:.4f} at [{corners}]"
