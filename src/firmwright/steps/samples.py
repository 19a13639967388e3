"""samples: the samples that the recipe names, checked before anything is compiled."""

from __future__ import annotations

from pathlib import Path

from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.command_line import find_place
from firmwright.pipeline.inputs import has_pictures
from firmwright.pipeline.job import Job
from firmwright.pipeline.samples import read_network_columns, read_samples
from firmwright.recipe.quantization import Inputs


def run(job: Job, _folder: Path) -> None:
    """Write nothing; DiagnosticError with the place of each key whose samples do not fit.

    Of pictures the first is read, of all else as many samples as the recipe asks for.
    """
    recipe = job.recipe
    found: list[Diagnostic] = []
    stated: list[tuple[Pointer, Inputs | None, int | None]] = [
        (("run", "inputs"), recipe.run.inputs, recipe.run.samples)
    ]
    if recipe.evaluate is not None:
        place = ("evaluate", "inputs")
        stated.append((place, recipe.evaluate.inputs, recipe.evaluate.samples))
    for pointer, given, count in stated:
        if given is None:
            continue
        try:
            check_samples(job, pointer, given, 1 if has_pictures(given) else count)
        except UserError as error:
            found.append(find_place(recipe, pointer, str(error)))
    if found:
        raise DiagnosticError(found)


def check_samples(job: Job, pointer: Pointer, given: Inputs, count: int | None) -> None:
    """Read samples as the stage that the key belongs to will read them."""
    if pointer[0] == "run":
        read_network_columns(job, artifacts.NETWORK_INTERFACE.read(job), given, count)
    else:
        read_samples(job, artifacts.MODEL_INTERFACE.read(job).inputs, given, count)
