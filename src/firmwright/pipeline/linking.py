"""The archives that are linked, and who needs what a link lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firmwright.documents.document import make_diagnostic_in
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError, UserError
from firmwright.toolchain.compilers import ToolError
from firmwright.toolchain.layout import NETWORK
from firmwright.toolchain.libraries import check_machine, find_failed_symbols

from .artifacts import PROJECT
from .job import Job
from .options import find_extra_archives


def find_link_archives(job: Job, like: Path) -> list[Path]:
    """Return the archives that are linked to object files as ``like``, those of the project first.

    Raises DiagnosticError, at its place in the recipe, for one that is for another machine.
    """
    project, found = PROJECT.path(job), []
    for index, library in enumerate(job.recipe.libraries):
        if library.archive is not None:
            archive = project / NETWORK / Path(library.archive).name
            try:
                check_machine(archive, like)
            except UserError as error:
                place = ("libraries", index)
                mistake = make_diagnostic_in(job.recipe.path, place, str(error))
                raise DiagnosticError([mistake]) from None
            found.append(archive)
    return found + find_matching_archives(job, like)


def find_matching_archives(job: Job, like: Path) -> list[Path]:
    """Return those of the environment's archives that are for the machine of an object file.

    What is left out is told: archives for the processor and for other cores stand in one variable.
    """
    found = []
    for archive, variable in find_extra_archives(job).items():
        try:
            check_machine(archive, like)
        except UserError as error:
            job.note(f"{variable}: not linked here: {error}")
        else:
            found.append(archive)
    return found


@contextmanager
def explain_link_errors(
    job: Job, objects: Sequence[Path], archives: Sequence[Path]
) -> Iterator[None]:
    """Say who needs the symbols that a link fails for; a strategy calls what it likes."""
    try:
        yield
    except ToolError as error:
        if not job.recipe.extensions:
            raise
        found = find_failed_symbols(error.output, objects, archives)
        if not found:
            raise
        raise DiagnosticError(
            make_diagnostic_in(job.recipe.path, find_library(job, m.needed_by.name), str(m))
            for m in found
        ) from None


def find_library(job: Job, name: str) -> Pointer:
    """Return the recipe's key that an object file or an archive's member comes from."""
    for index, library in enumerate(job.recipe.libraries):
        objects = {Path(source).with_suffix(".o").name for source in library.sources}
        if name in objects or name.partition("(")[0] == Path(library.archive or "").name:
            return ("libraries", index)
    return ("libraries",)
