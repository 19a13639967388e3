"""Reads the labels that a recipe names: the correct classes or boxes of its samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from firmwright.data.arrays import load_npy, load_npz
from firmwright.errors import UserError, did_you_mean
from firmwright.ir.tensors import ModelInterface
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.classes import read_class_names
from firmwright.verify.accuracy import Array

from .job import Job
from .stage_options import require

LABELS = "labels"
"""The name of the array with the labels in an ``.npz`` file."""


@dataclass(frozen=True)
class Labels:
    """The correct classes or the correct boxes of the samples, or None."""

    classes: Array | None = None
    boxes: Sequence[Sequence[Box]] | None = None


def read_labels(job: Job, interface: ModelInterface, count: int) -> Labels:
    """Return the labels of the first ``count`` samples.

    Raises UserError if the labels are not suitable.
    """
    stated = require(job.recipe.evaluate)
    if stated.labels is None:
        return Labels()
    file = job.recipe.resolve(stated.labels)
    if file.suffix == ".json":
        names = read_class_names(require(job.recipe.detection).classes, job.data_folders)
        refuse_equal(names)
        return Labels(boxes=read_box_labels(file, names, count))
    # A metric may define other labels, and a single output has an unknown number of classes.
    scores = interface.outputs[0].elements
    known = scores if scores > 1 and not stated.metric else None
    return Labels(read_class_labels(file, count, known))


def refuse_equal(names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UserError(
                f"the classes {names.index(name)} and {index} are both named '{name}'; rename one"
            )


class LabeledBox(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of a file of labels.

    ``box`` contains the left, top, right and bottom as fractions of the picture. ``class_`` is a
    name or a number.
    """

    box: tuple[float, float, float, float]
    class_: str | int = msgspec.field(name="class")


def read_class_labels(path: Path, count: int, classes: int | None) -> npt.NDArray[np.int64]:
    """Return the classes of the first ``count`` samples from an ``.npy`` or ``.npz`` file.

    ``classes`` is the number of classes, or None if the number is unknown. Raises UserError if the
    labels do not fit.
    """
    array = load_npz(path, [LABELS], "the labels")[LABELS] if is_archive(path) else load_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserError(
            f"{path}: expected whole numbers, one label per sample; found {array.dtype} of shape "
            f"{list(array.shape)}"
        )
    if len(array) < count:
        raise UserError(f"{path}: {len(array)} labels for {count} samples; expected one per sample")
    labels = array[:count]
    foreign = np.flatnonzero((labels < 0) | (labels >= (classes or math.inf)))
    if classes is not None and len(foreign):
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise UserError(
            f"{path}: label {labels[foreign[0]]} of sample {foreign[0]}{more}: the network's "
            f"first output has {classes} classes; expected 0 to {classes - 1}"
        )
    return labels.astype("int64")


def is_archive(path: Path) -> bool:
    return path.suffix == ".npz"


def read_box_labels(path: Path, names: Sequence[str], count: int) -> list[list[Box]]:
    """Return the boxes of the first ``count`` samples from a JSON file.

    Raises UserError if a box is invalid.
    """
    try:
        labels = msgspec.json.decode(path.read_bytes(), type=list[list[LabeledBox]])
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(
            f"{path}: expected a list of boxes for each sample, such as "
            f'[[{{"class": "{names[0]}", "box": [0.1, 0.2, 0.5, 0.9]}}]]: {error}'
        ) from None
    if len(labels) < count:
        raise UserError(
            f"{path}: boxes of {len(labels)} samples for {count} samples; add a list per sample"
        )
    return [[to_box(box, names, path) for box in sample] for sample in labels[:count]]


def to_box(given: LabeledBox, names: Sequence[str], path: Path) -> Box:
    x0, y0, x1, y1 = given.box
    if not (x0 < x1 and y0 < y1):
        raise UserError(f"{path}: the box {list(given.box)} has no area; expected x0, y0, x1, y1")
    if isinstance(given.class_, int):
        if not 0 <= given.class_ < len(names):
            raise UserError(f"{path}: no class {given.class_}; expected 0 to {len(names) - 1}")
        return Box(x0, y0, x1, y1, 1.0, given.class_)
    if given.class_ not in names:
        raise UserError(f"{path}: no class '{given.class_}'{did_you_mean(given.class_, names)}")
    return Box(x0, y0, x1, y1, 1.0, names.index(given.class_))
