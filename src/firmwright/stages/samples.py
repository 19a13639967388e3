"""Runs the stage ``samples``: checks samples, labels and classes before the C compiler runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.ir.tensors import Tensor
from firmwright.pipeline.artifacts import MODEL_INTERFACE, NETWORK_INTERFACE
from firmwright.pipeline.build_inputs import has_pictures
from firmwright.pipeline.job import Job
from firmwright.pipeline.label_files import read_labels
from firmwright.pipeline.recipe_samples import read_network_columns, read_samples
from firmwright.postprocess.classes import read_class_names
from firmwright.recipe.quantize_keys import EvaluateOptions


def run(job: Job, _folder: Path) -> None:
    """Check the data of the recipe. Raises DiagnosticError at each key whose data does not fit.

    Only the first picture is read. For other data, as many samples as the recipe states are read.
    """
    recipe, diagnostics = job.recipe, list[Diagnostic]()

    @contextmanager
    def collect(*pointer: str) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            diagnostics.append(recipe.make_diagnostic(pointer, str(error)))

    if recipe.run.inputs is not None:
        with collect("run", "inputs"):
            count = 1 if has_pictures(recipe.run.inputs) else recipe.run.samples
            network = NETWORK_INTERFACE.read(job)
            read_network_columns(job, network, recipe.run.inputs, count)
    if recipe.classes is not None:
        with collect("postprocess", "classes"):
            names = read_class_names(recipe.classes, job.data_folders)
            match_classes(len(names), NETWORK_INTERFACE.read(job).outputs)
    if recipe.detection is not None:
        with collect("postprocess", "detection", "classes"):
            read_class_names(recipe.detection.classes, job.data_folders)
    if recipe.evaluate is not None:
        counted = recipe.evaluate.samples
        with collect("evaluate", "inputs"):
            counted = count_samples(job, recipe.evaluate)
        with collect("evaluate", "labels"):
            read_labels(job, NETWORK_INTERFACE.read(job), counted or 1)
    if diagnostics:
        raise DiagnosticError(diagnostics)


def match_classes(count: int, outputs: Sequence[Tensor]) -> None:
    """Raise UserError if no output has an axis with ``count`` elements."""
    if not any(count in tensor.shape for tensor in outputs):
        shapes = ", ".join(f"'{tensor.name}' is {list(tensor.shape)}" for tensor in outputs)
        raise UserError(
            f"`classes` has {count} names, but no output has {count} values ({shapes}); state a "
            "name per class"
        )


def count_samples(job: Job, stated: EvaluateOptions) -> int:
    """Return the known number of evaluation samples. Raises UserError if samples are unsuitable."""
    pictures = has_pictures(stated.inputs)
    read = read_samples(
        job, MODEL_INTERFACE.read(job).inputs, stated.inputs, 1 if pictures else stated.samples
    )
    return stated.samples or len(read)
