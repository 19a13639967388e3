"""Computes a detection in numpy, as the reference of the firmware's C code.

The source of the formulas is docs/howto/detection.md, not the C code. This module and the C code
compute in single precision. Only numpy's exponentials and similar functions use double precision.
Both programs drop boxes that are not finite or have no area. Boxes with equal scores keep the order
of their cells: by head, anchor, row, column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.tensors import Tensor
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.detector import CellGrid, Detector
from firmwright.recipe.postprocess import Confidence

Floats = npt.NDArray[np.float32]
Positions = tuple[Floats, Floats]
"""The column and the row of every cell, in cells."""


def detect(detector: Detector, outputs: Sequence[npt.NDArray[Any]]) -> list[Box]:
    """Return the boxes of one sample's outputs, the highest score first."""
    with np.errstate(all="ignore"):
        parts = [find_candidates(detector, grid, outputs[grid.output]) for grid in detector.grids]
        corners = np.concatenate([p[0] for p in parts])
        scores = np.concatenate([p[1] for p in parts])
        classes = np.concatenate([p[2] for p in parts])
        order = np.argsort(-scores, kind="stable")[: detector.detection.candidates]
        kept = suppress_non_maxima(corners[order], classes[order], detector)
    boxes = []
    for i in order[kept]:
        x0, y0, x1, y1 = map(float, corners[i])
        boxes.append(Box(x0, y0, x1, y1, float(scores[i]), int(classes[i])))
    return boxes


def dequantize(values: npt.NDArray[Any], tensor: Tensor) -> Floats:
    if tensor.dtype == "float32":
        return values.reshape(-1).astype(np.float32)
    whole = values.reshape(-1).astype(np.int32) - int(tensor.zero_point or 0)
    result: Floats = whole.astype(np.float32) * np.float32(tensor.scale)
    return result


def view_cells(grid: CellGrid, values: Floats) -> Floats:
    """Return a view of the output as (channel, anchor, row, column), with the grid's steps."""
    item = values.itemsize
    channels = 1 + (values.size - 1 - find_last_cell(grid)) // grid.channel_step
    shape = (channels, len(grid.anchors), grid.rows, grid.columns)
    steps = (grid.channel_step, grid.anchor_step, grid.row_step, grid.column_step)
    return np.lib.stride_tricks.as_strided(
        values[grid.first :], shape, [s * item for s in steps], writeable=False
    )


def find_last_cell(grid: CellGrid) -> int:
    anchors, rows, columns = len(grid.anchors) - 1, grid.rows - 1, grid.columns - 1
    return (
        grid.first + anchors * grid.anchor_step + rows * grid.row_step + columns * grid.column_step
    )


def find_candidates(
    detector: Detector, grid: CellGrid, output: npt.NDArray[Any]
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return corners (n, 4), scores (n) and classes (n) of boxes that reach the threshold."""
    detection = detector.detection
    cells = view_cells(grid, dequantize(output, detector.outputs[grid.output]))
    first = detection.class_scores.channel
    logits = cells[first : first + detector.classes]
    ranked = np.where(np.isnan(logits), np.float32(-np.inf), logits)
    classes = ranked.argmax(axis=0)
    score = apply_confidence(ranked.max(axis=0), detection.class_scores)
    if detection.objectness:
        score = apply_confidence(cells[detection.objectness.channel], detection.objectness) * score
    corners = np.stack(decode_corners(detector, grid, cells), axis=-1)
    x0, y0, x1, y1 = np.moveaxis(corners, -1, 0)
    good = np.isfinite(ranked.max(axis=0)) & np.isfinite(score)
    good &= score >= np.float32(detection.threshold)
    good &= np.isfinite(corners).all(axis=-1) & (x1 > x0) & (y1 > y0)
    return corners[good], score[good], classes[good]


def round_once(function: Callable[..., Any], values: Floats, *arguments: Any) -> Floats:
    """Compute a function in double precision, and round the result.

    The last digits of NumPy's single-precision vector functions depend on the processor, and the
    manifest contains these digits.
    """
    result: Floats = function(values.astype(np.float64), *arguments).astype(np.float32)
    return result


exp, tanh, power = (partial(round_once, function) for function in (np.exp, np.tanh, np.power))


def apply_confidence(values: Floats, confidence: Confidence) -> Floats:
    if confidence.activation == "sigmoid":
        values = sigmoid(values)
    if confidence.exponent != 1:
        values = power(values, np.float32(confidence.exponent))
    return values


def sigmoid(x: Floats) -> Floats:
    result: Floats = np.float32(1) / (np.float32(1) + exp(-x))
    return result


def decode_corners(detector: Detector, grid: CellGrid, cells: Floats) -> tuple[Floats, ...]:
    """Return x0, y0, x1, y1 of every (anchor, row, column), as fractions of the picture."""
    box = detector.detection.box
    t = cells[box.channel : box.channel + detector.box_channels]
    column = np.arange(grid.columns, dtype=np.float32)[None, None, :]
    row = np.arange(grid.rows, dtype=np.float32)[None, :, None]
    size = np.array([grid.columns, grid.rows], np.float32)
    picture = np.array(detector.detection.picture, np.float32)
    anchors = np.array(grid.anchors, np.float32)[:, :, None, None]
    if box.encoding == "distributions":
        t = compute_expected_bins(t.reshape(4, box.bins, *t.shape[1:]))
    if box.encoding in ("distances", "distributions"):
        middle = column + np.float32(0.5), row + np.float32(0.5)
        return (
            (middle[0] - t[0]) / size[0],
            (middle[1] - t[1]) / size[1],
            (middle[0] + t[2]) / size[0],
            (middle[1] + t[3]) / size[1],
        )
    if box.encoding == "corners":
        return tuple(t[i] / picture[i % 2] for i in range(4))
    if box.encoding == "centre-size":
        center = t[0] / picture[0], t[1] / picture[1]
        extent = t[2] / picture[0], t[3] / picture[1]
    else:
        shift, stretch = CENTER_FUNCTIONS[box.encoding], SIZE_FUNCTIONS[box.encoding]
        center = (column + shift(t[0])) / size[0], (row + shift(t[1])) / size[1]
        extent = (
            stretch(t[2], anchors[:, 0], size[0]),
            stretch(t[3], anchors[:, 1], size[1]),
        )
    half = extent[0] * np.float32(0.5), extent[1] * np.float32(0.5)
    return center[0] - half[0], center[1] - half[1], center[0] + half[0], center[1] + half[1]


def compute_expected_bins(t: Floats) -> Floats:
    """Return the mean bin number of the softmax over axis 1 of (4, bins, …)."""
    weights = exp(t - t.max(axis=1, keepdims=True))
    numbers = np.arange(t.shape[1], dtype=np.float32).reshape(1, -1, *[1] * (t.ndim - 2))
    result: Floats = (weights * numbers).sum(axis=1) / weights.sum(axis=1)
    return result


CENTER_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "tanh-sigmoid": tanh,
    "sigmoid-exp": sigmoid,
    "sigmoid-square": lambda t: np.float32(2) * sigmoid(t) - np.float32(0.5),
    "offset-exp": lambda t: t,
}
"""Functions that return the distance of the center from the cell's upper left corner, in cells."""

SIZE_FUNCTIONS: dict[str, Callable[[Floats, Floats, np.float32], Floats]] = {
    "tanh-sigmoid": lambda t, _anchor, _cells: sigmoid(t),
    "sigmoid-exp": lambda t, anchor, _cells: anchor * exp(t),
    "sigmoid-square": lambda t, anchor, _cells: anchor * (np.float32(2) * sigmoid(t)) ** 2,
    "offset-exp": lambda t, _anchor, cells: np.divide(exp(t), cells, dtype=np.float32),
}
"""Functions of (value, anchor, grid size) that return a width or height in fractions of the
picture.
"""


def suppress_non_maxima(
    corners: Floats, classes: npt.NDArray[np.int64], detector: Detector
) -> list[int]:
    """Return the indices of the boxes to keep. Suppression is greedy, in the order of scores."""
    kept: list[int] = []
    limit = np.float32(detector.detection.iou)
    for i in range(len(corners)):
        rivals = [k for k in kept if not detector.detection.per_class or classes[k] == classes[i]]
        if not (compute_ious(corners[i], corners[rivals]) > limit).any():
            kept.append(i)
    return kept


def compute_ious(box: Floats, others: Floats) -> Floats:
    """Return the intersection over union of one box (4,) and each box of ``others`` (n, 4)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    sides = np.maximum(high - low, np.float32(0))
    common = sides[:, 0] * sides[:, 1]
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    result: Floats = common / (area + areas - common)
    return result
