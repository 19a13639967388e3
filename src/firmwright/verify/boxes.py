"""The boxes that networks find beside those that are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt

from firmwright.errors import UserError, did_you_mean
from firmwright.ir.tensors import ModelInterface
from firmwright.postprocess.average_precision import mean_average_precision
from firmwright.postprocess.boxes import Box, match_boxes
from firmwright.postprocess.detector import Detector, fit_detector
from firmwright.postprocess.reference import detect
from firmwright.recipe.postprocess import Detection

OutputsByName = dict[str, npt.NDArray[Any]]
"""Outputs by name, as real numbers, with a leading sample axis."""


@dataclass(frozen=True)
class BoxRates:
    """``recall``: part of the right boxes that a network found; ``precision``: of those it found,
    the part that is right. All rates are 1 where there is nothing to count.
    """

    found: int
    recall: float
    precision: float
    mean_average_precision: float


@dataclass(frozen=True)
class BoxAccuracy:
    """Boxes are the same from an overlap of ``iou`` on; ``right`` counts those that are right."""

    iou: float
    right: int
    networks: dict[str, BoxRates]


class LabeledBox(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of a file of labels; corners are left, top, right, bottom as parts of the picture.

    ``class_`` is a name or a number.
    """

    box: tuple[float, float, float, float]
    class_: str | int = msgspec.field(name="class")


@dataclass(frozen=True)
class BoxComparer:
    """``labels`` are the right boxes of each sample; without them, those of the first network."""

    detector: Detector
    iou: float
    labels: Sequence[Sequence[Box]] | None

    def compare(self, networks: Mapping[str, OutputsByName]) -> BoxAccuracy:
        """Compare networks by name: real outputs with a sample axis."""
        found = {name: self.detect_boxes(outputs) for name, outputs in networks.items()}
        right = next(iter(found.values())) if self.labels is None else self.labels
        rates = {name: self.compute_rates(boxes, right) for name, boxes in found.items()}
        return BoxAccuracy(self.iou, sum(map(len, right)), rates)

    def detect_boxes(self, outputs: OutputsByName) -> list[list[Box]]:
        arrays = [outputs[t.name] for t in self.detector.outputs]
        return [detect(self.detector, sample) for sample in zip(*arrays, strict=True)]

    def compute_rates(
        self, found: Sequence[Sequence[Box]], right: Sequence[Sequence[Box]]
    ) -> BoxRates:
        pairs = sum(
            len(match_boxes(ours, theirs, self.iou).pairs)
            for ours, theirs in zip(found, right, strict=True)
        )
        ours, theirs = sum(map(len, found)), sum(map(len, right))
        return BoxRates(
            found=ours,
            recall=pairs / theirs if theirs else 1.0,
            precision=pairs / ours if ours else 1.0,
            mean_average_precision=mean_average_precision(found, right, self.iou),
        )


def fit_float_detector(detection: Detection, classes: int, interface: ModelInterface) -> Detector:
    """Fit a detection to a network's outputs as real numbers."""
    outputs = tuple(
        replace(t, dtype="float32", scale=None, zero_point=None) for t in interface.outputs
    )
    return fit_detector(detection, classes, outputs)


def read_box_labels(path: Path, names: Sequence[str], count: int) -> list[list[Box]]:
    """Read a list of boxes for each of the first ``count`` samples; UserError for what is wrong."""
    try:
        labels = msgspec.json.decode(path.read_bytes(), type=list[list[LabeledBox]])
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(
            f"{path}: not a list of boxes for each sample, such as "
            f'[[{{"class": "{names[0]}", "box": [0.1, 0.2, 0.5, 0.9]}}]]: {error}'
        ) from None
    if len(labels) < count:
        raise UserError(f"{path}: boxes of {len(labels)} samples for {count} samples")
    return [[to_box(box, names, path) for box in sample] for sample in labels[:count]]


def to_box(given: LabeledBox, names: Sequence[str], path: Path) -> Box:
    x0, y0, x1, y1 = given.box
    if not (x0 < x1 and y0 < y1):
        raise UserError(f"{path}: the box {list(given.box)} has no area; expected x0, y0, x1, y1")
    if isinstance(given.class_, int):
        if not 0 <= given.class_ < len(names):
            raise UserError(f"{path}: class {given.class_}; there are {len(names)}, from 0 on")
        return Box(x0, y0, x1, y1, 1.0, given.class_)
    if given.class_ not in names:
        raise UserError(f"{path}: no class '{given.class_}'{did_you_mean(given.class_, names)}")
    return Box(x0, y0, x1, y1, 1.0, names.index(given.class_))
