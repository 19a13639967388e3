"""Fits a recipe's detection to the network's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from firmwright.errors import UserError, did_you_mean
from firmwright.ir.tensors import BatchLayout, Tensor
from firmwright.recipe.postprocess import Detection, Head


@dataclass(frozen=True)
class BoxEncoding:
    """The requirements of an encoding of boxes: a grid of cells, sizes of anchors."""

    grid: bool
    anchors: bool


ENCODINGS = {
    "centre-size": BoxEncoding(grid=False, anchors=False),
    "corners": BoxEncoding(grid=False, anchors=False),
    "tanh-sigmoid": BoxEncoding(grid=True, anchors=False),
    "sigmoid-exp": BoxEncoding(grid=True, anchors=True),
    "sigmoid-square": BoxEncoding(grid=True, anchors=True),
    "offset-exp": BoxEncoding(grid=True, anchors=False),
    "distances": BoxEncoding(grid=True, anchors=False),
    "distributions": BoxEncoding(grid=True, anchors=False),
}
"""``numpy_detection.py`` and the C template compute the formulas of docs/howto/detection.md."""

QUANTIZED_TYPES = ("int8", "uint8", "int16")


@dataclass(frozen=True)
class CellGrid:
    """The cells of one head, with the positions of their values in output number ``output``.

    The index of the value of (sample, anchor, row, column, channel) is ``first`` plus the products
    of these indices and their steps. ``anchors`` are (width, height) as fractions of the picture.
    The default is one anchor (1, 1).
    """

    output: int
    columns: int
    rows: int
    anchors: tuple[tuple[float, float], ...]
    first: int
    sample_step: int
    anchor_step: int
    row_step: int
    column_step: int
    channel_step: int


@dataclass(frozen=True)
class Detector:
    """The input of the C template and of the reference. ``outputs`` are tensors of one sample."""

    detection: Detection
    classes: int
    outputs: tuple[Tensor, ...]
    grids: tuple[CellGrid, ...]

    @property
    def box_channels(self) -> int:
        return count_box_channels(self.detection)


def count_box_channels(detection: Detection) -> int:
    return 4 * detection.box.bins if detection.box.encoding == "distributions" else 4


@dataclass(frozen=True)
class SamplePart:
    """The part of an output that belongs to one sample.

    ``steps`` are the steps of the tensor's axes in elements. ``sample_step`` is the distance
    between two samples in elements.
    """

    tensor: Tensor
    steps: tuple[int, ...]
    sample_step: int


def get_sample_part(tensor: Tensor, size: int, axis: int | None) -> SamplePart:
    """Return one sample's part of an output that contains ``size`` samples along ``axis``.

    All samples share the output if ``axis`` is None.
    """
    shape = list(tensor.shape)
    steps = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    if axis is None:
        return SamplePart(tensor, steps, 0)
    shape[axis] //= size
    return SamplePart(replace(tensor, shape=tuple(shape)), steps, shape[axis] * steps[axis])


def fit_detector(
    detection: Detection,
    classes: int,
    outputs: tuple[Tensor, ...],
    batch: BatchLayout | None = None,
) -> Detector:
    """Return the detector with the grids of the outputs.

    Raises UserError with all parts that do not fit.
    """
    layout = batch or BatchLayout(1, (None,) * len(outputs))
    parts = [
        get_sample_part(tensor, layout.size, axis)
        for tensor, axis in zip(outputs, layout.output_axes, strict=True)
    ]
    problems = find_overlapping_channels(detection, classes)
    grids: list[CellGrid] = []
    taken: dict[int, int] = {}
    for number, head in enumerate(detection.heads):
        try:
            index = find_output(head, outputs)
            grid, used = fit_head(
                detection, classes, head, parts[index], index, taken.get(index, 0)
            )
        except UserError as error:
            problems.append(f"head {number}: {error}")
            continue
        taken[index] = taken.get(index, 0) + used
        grids.append(grid)
    if not problems:
        problems = find_unread_cells(detection, [part.tensor for part in parts], taken)
    if problems:
        text = "\n".join(f"  {p}" for p in problems)
        raise UserError(f"the detection does not fit the network's outputs:\n{text}")
    return Detector(detection, classes, outputs, tuple(grids))


def find_overlapping_channels(detection: Detection, classes: int) -> list[str]:
    parts = [
        (detection.box.channel, count_box_channels(detection), "box"),
        (detection.class_scores.channel, classes, "class_scores"),
    ]
    if detection.objectness:
        parts.append((detection.objectness.channel, 1, "objectness"))
    parts.sort()
    return [
        f"the channels of {a} ({first} to {first + count - 1}) and {b} (from {after}) overlap"
        for (first, count, a), (after, _, b) in pairwise(parts)
        if first + count > after
    ]


def find_output(head: Head, outputs: tuple[Tensor, ...]) -> int:
    names = [t.name for t in outputs]
    if head.output is None:
        if len(names) == 1:
            return 0
        raise UserError(f"the network has several outputs; state `output`: {', '.join(names)}")
    if head.output not in names:
        raise UserError(f"no output '{head.output}'{did_you_mean(head.output, names)}")
    return names.index(head.output)


def fit_head(
    detection: Detection, classes: int, head: Head, part: SamplePart, index: int, taken: int
) -> tuple[CellGrid, int]:
    """Return the head's grid, and the number of cells on axis L that it uses after ``taken``."""
    tensor = part.tensor
    check_type(tensor)
    sizes = dict(zip(detection.layout, check_shape(detection.layout, tensor), strict=True))
    steps = dict(zip(detection.layout, part.steps, strict=True))
    boxes = normalize_anchors(detection, head)
    columns, rows = compute_grid_size(detection, head, sizes, taken, len(boxes))
    shared = "A" not in sizes and "L" not in sizes
    channels = sizes["C"] // len(boxes) if shared else sizes["C"]
    if shared and sizes["C"] % len(boxes):
        raise UserError(
            f"{sizes['C']} channels are not a multiple of {len(boxes)} anchors; correct `anchors`"
        )
    if "A" in sizes and sizes["A"] != len(boxes):
        raise UserError(
            f"output '{tensor.name}' has {sizes['A']} anchors, but the recipe has {len(boxes)}; "
            "correct `anchors`"
        )
    last = max(
        detection.box.channel + count_box_channels(detection),
        detection.class_scores.channel + classes,
        detection.objectness.channel + 1 if detection.objectness else 0,
    )
    if last > channels:
        raise UserError(
            f"output '{tensor.name}' ({tensor.dtype} {list(tensor.shape)} as "
            f"{detection.layout}) has {channels} channels per anchor; box, objectness and "
            f"{classes} classes need {last}: correct these keys or `layout`"
        )
    if "L" in sizes:
        row_step, column_step = columns * steps["L"], steps["L"]
        anchor_step = rows * row_step
    else:
        row_step, column_step = steps["H"], steps["W"]
        anchor_step = channels * steps["C"] if shared else steps["A"]
    used = rows * columns * len(boxes) if "L" in sizes else 0
    first = taken * steps.get("L", 0)
    grid = CellGrid(
        output=index,
        columns=columns,
        rows=rows,
        anchors=boxes,
        first=first,
        sample_step=part.sample_step,
        anchor_step=anchor_step,
        row_step=row_step,
        column_step=column_step,
        channel_step=steps["C"],
    )
    return grid, used


def check_type(tensor: Tensor) -> None:
    if tensor.storage is not None:
        raise UserError(
            f"output '{tensor.name}' is in the layout of an accelerator; the detection reads only "
            "the model's layout: remove `-layout_transform=0` from the target"
        )
    if tensor.dtype == "float32":
        return
    if tensor.dtype not in QUANTIZED_TYPES or tensor.scale is None:
        known = ", ".join(QUANTIZED_TYPES)
        raise UserError(
            f"output '{tensor.name}' is {tensor.dtype}; expected float32, or {known} with a scale "
            "and zero point: export the model with such an output"
        )


def check_shape(layout: str, tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape.

    Raises UserError if the axes differ from ``layout``, or if there are several samples.
    """
    shape = tensor.shape
    if len(shape) != len(layout):
        raise UserError(
            f"output '{tensor.name}' has shape {list(shape)}; the recipe's `layout`, {layout}, "
            f"has {len(layout)} axes: correct it"
        )
    if shape[0] != 1:
        raise UserError(
            f"output '{tensor.name}' has shape {list(shape)}, several samples at once; export the "
            "network for one, and state `batch` for more"
        )
    return shape


def normalize_anchors(detection: Detection, head: Head) -> tuple[tuple[float, float], ...]:
    """Return the anchors as fractions of the picture."""
    encoding = detection.box.encoding
    if ENCODINGS[encoding].anchors != bool(head.anchors):
        needs = "needs anchors; add" if ENCODINGS[encoding].anchors else "has no anchors; remove"
        raise UserError(f"the encoding {encoding} {needs} `anchors`")
    width, height = detection.picture
    return tuple((w / width, h / height) for w, h in head.anchors) or ((1.0, 1.0),)


def compute_grid_size(
    detection: Detection, head: Head, sizes: dict[str, int], taken: int, anchors: int
) -> tuple[int, int]:
    """Return (columns, rows) from the output's shape, or from the picture's size and the stride."""
    width, height = detection.picture
    if "L" not in sizes:
        columns, rows = sizes["W"], sizes["H"]
        if head.stride and (columns * head.stride, rows * head.stride) != (width, height):
            raise UserError(
                f"a grid of {columns} x {rows} cells with a stride of {head.stride} does not cover "
                f"a picture of {width} x {height}; correct the head's `stride`"
            )
        return columns, rows
    left = sizes["L"] - taken
    if head.stride is None:
        if ENCODINGS[detection.box.encoding].grid:
            raise UserError(
                f"the encoding {detection.box.encoding} needs the head's `stride`; add it"
            )
        return max(left, 0), 1
    if width % head.stride or height % head.stride:
        problem = f"{width} x {height} pixels are not a multiple of the stride {head.stride}"
        raise UserError(f"{problem}; correct the head's `stride`")
    columns, rows = width // head.stride, height // head.stride
    if columns * rows * anchors > left:
        raise UserError(
            f"{columns} x {rows} cells with {anchors} boxes each do not fit the {left} remaining "
            "cells of the output; correct the head's `stride` or `anchors`"
        )
    return columns, rows


def find_unread_cells(
    detection: Detection, outputs: Sequence[Tensor], taken: dict[int, int]
) -> list[str]:
    """Return a problem for each list of cells that the heads read only in part.

    The cause is a missing head or a wrong size.
    """
    if "L" not in detection.layout:
        return []
    problems = []
    for index, used in sorted(taken.items()):
        cells = outputs[index].shape[detection.layout.index("L")]
        if used != cells:
            problems.append(
                f"output '{outputs[index].name}' has {cells} cells; the heads have {used}"
            )
    return problems
