"""The labels that a recipe names: the right classes of its samples, or the right boxes."""

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
    """The right class of each sample, or its right boxes; None for what is not stated."""

    classes: Array | None = None
    boxes: Sequence[Sequence[Box]] | None = None


def read_labels(job: Job, interface: ModelInterface, count: int) -> Labels:
    """Return the labels of the first ``count`` samples; UserError for those that do not fit."""
    stated = require(job.recipe.evaluate)
    if stated.labels is None:
        return Labels()
    file = job.recipe.resolve(stated.labels)
    if file.suffix == ".json":
        names = read_class_names(require(job.recipe.detection).classes, job.data_folders)
        refuse_equal(names)
        return Labels(boxes=read_box_labels(file, names, count))
    # What labels mean to a metric, or how many classes a single output tells, is not known here.
    scores = interface.outputs[0].elements
    known = scores if scores > 1 and not stated.metric else None
    return Labels(read_class_labels(file, count, known))


def refuse_equal(names: Sequence[str]) -> None:
    """Raise UserError for two classes of one name, which labels could not tell apart."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UserError(f"the classes {names.index(name)} and {index} are both named '{name}'")
