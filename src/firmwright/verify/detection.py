"""Compares boxes with the reference's boxes (file ``run/boxes.json``), and with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firmwright.data.arrays import OutputsByName
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.postprocess.boxes import (
    Box,
    compute_iou,
    compute_mean_average_precision,
    match_boxes,
)
from firmwright.postprocess.detector import Detector, fit_detector
from firmwright.postprocess.numpy_detection import detect
from firmwright.recipe.postprocess import Detection
from firmwright.verify.run_records import BoxAccuracy, BoxRates

AGREEMENT_IOU = 0.9
"""The minimum intersection over union at which two boxes match."""


@dataclass(frozen=True, slots=True)
class FoundBox:
    """A box of the firmware, and its match in the reference. Corners are fractions of the picture.

    ``reference_iou`` is the intersection over union with the reference's box. ``reference_score``
    is the score of the reference's box.
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


@dataclass(frozen=True, slots=True)
class SampleBoxes:
    """One sample: its name, the SHA-256 of each input's data, and its boxes."""

    sample: str
    sha256: dict[str, str]
    boxes: tuple[FoundBox, ...]


@dataclass(frozen=True, slots=True)
class DetectionReport:
    """All samples of a run. ``threshold`` is the lowest score of a box.

    ``judge`` is the reference: the network in its reference runtime or, if the recipe quantizes the
    network, the float network.
    """

    threshold: float
    agreement_iou: float
    judge: str
    samples: tuple[SampleBoxes, ...]


def match_samples(
    reference: str,
    labels: Sequence[str],
    digests: Sequence[dict[str, str]],
    names: Sequence[str],
    detected: Sequence[Sequence[Box]],
    expected: Sequence[Sequence[Box]],
) -> tuple[SampleBoxes, ...]:
    """Match the firmware's boxes (``detected``) with the reference's boxes (``expected``).

    Samples have ``labels`` and ``digests``, and classes have ``names``. Raises UserError with all
    boxes of both sides that have no match.
    """
    problems: list[str] = []
    samples = []
    for label, digest, ours, theirs in zip(labels, digests, detected, expected, strict=True):
        matches = match_boxes(ours, theirs, AGREEMENT_IOU)
        for side, boxes in (("reference", matches.missing), ("firmware", matches.unexpected)):
            problems += [f"{label}: only the {side} has {describe_box(b, names)}" for b in boxes]
        pairs = sorted(matches.pairs, key=lambda pair: -pair[0].score)
        samples.append(SampleBoxes(label, digest, tuple(make_box(*pair, names) for pair in pairs)))
    if problems:
        text = "\n".join(f"  {p}" for p in problems)
        raise UserError(
            f"the firmware's boxes differ from the boxes of the reference, {reference} (same "
            f"class, intersection over union of {AGREEMENT_IOU} or more):\n{text}"
        )
    return tuple(samples)


def make_box(detected: Box, expected: Box, names: Sequence[str]) -> FoundBox:
    return FoundBox(
        class_name=names[detected.class_index],
        **vars(detected),
        reference_score=expected.score,
        reference_iou=compute_iou(detected, expected),
    )


def describe_box(box: Box, names: Sequence[str]) -> str:
    corners = ", ".join(f"{v:.4f}" for v in (box.x0, box.y0, box.x1, box.y1))
    return f"'{names[box.class_index]}' with score {box.score:.4f} at [{corners}]"


@dataclass(frozen=True)
class BoxComparer:
    """Compares the boxes of networks with the correct boxes.

    ``labels`` are the correct boxes of each sample. The first network's boxes count as correct if
    ``labels`` is None. Two boxes match if their intersection over union is at least ``iou``.
    """

    detector: Detector
    iou: float
    labels: Sequence[Sequence[Box]] | None

    def compare(self, networks: Mapping[str, OutputsByName]) -> BoxAccuracy:
        detected = {name: self.detect_boxes(outputs) for name, outputs in networks.items()}
        right = next(iter(detected.values())) if self.labels is None else self.labels
        rates = {name: self.compute_rates(boxes, right) for name, boxes in detected.items()}
        return BoxAccuracy(self.iou, sum(map(len, right)), rates)

    def detect_boxes(self, outputs: OutputsByName) -> list[list[Box]]:
        arrays = [outputs[t.name] for t in self.detector.outputs]
        return [detect(self.detector, sample) for sample in zip(*arrays, strict=True)]

    def compute_rates(
        self, detected: Sequence[Sequence[Box]], right: Sequence[Sequence[Box]]
    ) -> BoxRates:
        pairs = sum(
            len(match_boxes(ours, theirs, self.iou).pairs)
            for ours, theirs in zip(detected, right, strict=True)
        )
        ours, theirs = sum(map(len, detected)), sum(map(len, right))
        return BoxRates(
            found=ours,
            recall=pairs / theirs if theirs else 1.0,
            precision=pairs / ours if ours else 1.0,
            mean_average_precision=compute_mean_average_precision(detected, right, self.iou),
        )


def fit_float_detector(detection: Detection, classes: int, interface: ModelInterface) -> Detector:
    """Return a detector for a network's outputs as real numbers."""
    outputs = tuple(
        replace(t, dtype="float32", scale=None, zero_point=None) for t in interface.outputs
    )
    return fit_detector(detection, classes, outputs)
