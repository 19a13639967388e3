"""Measures the numbers of correct and wrong boxes that networks find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firmwright.data.arrays import OutputsByName
from firmwright.ir.tensors import ModelInterface
from firmwright.postprocess.boxes import Box, compute_mean_average_precision, match_boxes
from firmwright.postprocess.detector import Detector, fit_detector
from firmwright.postprocess.numpy_detection import detect
from firmwright.recipe.postprocess import Detection
from firmwright.verify.run_records import BoxAccuracy, BoxRates


@dataclass(frozen=True)
class BoxComparer:
    """Compares the boxes of networks with the correct boxes.

    ``labels`` are the correct boxes of each sample. If they are None, the first network's boxes
    count as correct. Two boxes match if their intersection over union is at least ``iou``.
    """

    detector: Detector
    iou: float
    labels: Sequence[Sequence[Box]] | None

    def compare(self, networks: Mapping[str, OutputsByName]) -> BoxAccuracy:
        """Return the accuracy of the boxes in the outputs of each network."""
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
            mean_average_precision=compute_mean_average_precision(found, right, self.iou),
        )


def fit_float_detector(detection: Detection, classes: int, interface: ModelInterface) -> Detector:
    """Return a detector for a network's outputs as real numbers."""
    outputs = tuple(
        replace(t, dtype="float32", scale=None, zero_point=None) for t in interface.outputs
    )
    return fit_detector(detection, classes, outputs)
