"""Reads the labels that a recipe names: the correct classes or boxes of its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.classes import read_class_names
from firmwright.verify.accuracy import Array
from firmwright.verify.labels import read_box_labels, read_class_labels

from .job import Job
from .options import require


@dataclass(frozen=True)
class Labels:
    """The correct class of each sample, or its correct boxes; None for labels without values."""

    classes: Array | None = None
    boxes: Sequence[Sequence[Box]] | None = None


def read_labels(job: Job, interface: ModelInterface, count: int) -> Labels:
    """Return the labels of the first ``count`` samples. Raises UserError for unsuitable labels."""
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
    """Raise UserError for two classes with one name, because labels would be ambiguous."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UserError(
                f"the classes {names.index(name)} and {index} are both named '{name}'; rename one"
            )
