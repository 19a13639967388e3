"""Finds the archives to link, and explains which code needs a missing symbol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.project.user_libraries import TakenNameError
from firmwright.toolchain.archive_checks import check_machine, find_failed_symbols
from firmwright.toolchain.compilers import ToolError
from firmwright.toolchain.project_folders import NETWORK

from .artifacts import PROJECT
from .job import Job
from .stage_options import find_extra_archives


def find_link_archives(job: Job, like: Path) -> list[Path]:
    """Return the archives to link with objects such as ``like``, the project's archives first.

    Raises DiagnosticError, at the archive's position in the recipe, if an archive is for another
    machine.
    """
    project, archives = PROJECT.path(job), []
    for index, library in enumerate(job.recipe.libraries):
        if library.archive is not None:
            archive = project / NETWORK / Path(library.archive).name
            try:
                check_machine(archive, like)
            except UserError as error:
                pointer = ("libraries", index)
                mistake = job.recipe.make_diagnostic(pointer, str(error))
                raise DiagnosticError([mistake]) from None
            archives.append(archive)
    return archives + find_matching_archives(job, like)


def find_matching_archives(job: Job, like: Path) -> list[Path]:
    """Return the environment's archives for the machine of an object file.

    A note lists the rejected archives, because one variable may name archives for several kinds of
    cores.
    """
    archives = []
    for archive, variable in find_extra_archives(job).items():
        try:
            check_machine(archive, like)
        except UserError as error:
            job.note(f"{variable}: not linked here: {error}")
        else:
            archives.append(archive)
    return archives


@contextmanager
def explain_link_errors(
    job: Job, objects: Sequence[Path], archives: Sequence[Path]
) -> Iterator[None]:
    """Report the code that needs the missing symbols of a link, such as a strategy's code.

    A linker error about an object of a library is reported at the library in the recipe.
    """
    try:
        yield
    except ToolError as error:
        symbols = (
            find_failed_symbols(error.output, objects, archives) if calls_libraries(job) else []
        )
        if symbols:
            raise DiagnosticError(
                locate_library_error(job, m.needed_by.name, str(m)) for m in symbols
            ) from None
        blamed = [path.name for path in (*objects, *archives) if names_file(error.output, path)]
        blamed_libraries = [
            locate_library_error(job, name, str(error))
            for name in blamed
            if is_custom_library(job, name)
        ]
        if blamed_libraries:
            raise DiagnosticError(blamed_libraries[:1]) from None
        raise


@contextmanager
def locate_library_errors(job: Job) -> Iterator[None]:
    """Report a library at its position in the recipe if the library's name is already in use."""
    try:
        yield
    except TakenNameError as error:
        raise DiagnosticError([locate_library_error(job, error.file.name, str(error))]) from None


def calls_libraries(job: Job) -> bool:
    """Return whether custom strategies or operators may call functions that are not defined."""
    recipes = (each.recipe for each in (job, *job.members))
    return any(recipe.extensions or recipe.model.custom_operators for recipe in recipes)


def names_file(output: str, path: Path) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(path.name)}(?!\w)", output))


def is_custom_library(job: Job, name: str) -> bool:
    return any(find_library(each, name) for each in (job, *job.members))


def locate_library_error(job: Job, name: str, message: str) -> Diagnostic:
    """Return the message at the library that contains the file, in the recipe of the network."""
    for each in job.members or (job,):
        if pointer := find_library(each, name):
            return each.recipe.make_diagnostic(pointer, message)
    return job.recipe.make_diagnostic(("libraries",), message)


def find_library(job: Job, name: str) -> Pointer:
    """Return the recipe's key of the library that contains a file or archive member, or ()."""
    for index, library in enumerate(job.recipe.libraries):
        sources = [Path(source) for source in library.sources]
        files = {path.name for path in (*sources, *map(Path, library.includes))}
        files |= {path.with_suffix(".o").name for path in sources}
        if name in files or name.partition("(")[0] == Path(library.archive or "").name:
            return ("libraries", index)
    return ()
