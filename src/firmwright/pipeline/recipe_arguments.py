"""Reads the arguments ``recipe=`` and ``platform=`` of a command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from doit import get_initial_workdir, get_var, loader

from firmwright import run_log
from firmwright.data.patterns import WILDCARDS
from firmwright.documents.chain import Layers, split_overlays
from firmwright.errors import UserError, did_you_mean

from .profile import DEBUG, LOG, VERBOSE, is_asked

if TYPE_CHECKING:
    from .job import Job


TASK_FILE = "dodo.py"
TASKS = "firmwright.tasks.dodo"
"""The module that makes the tasks. The module reads the arguments when it is imported."""

SUFFIXES = (".yaml", ".yml")
"""The suffixes that a pattern matches.

Other files, such as a recipe's lock and model, may have the recipe's name.
"""

DESCRIPTION = re.compile(
    r"^(architectures?|families|recipes|include|flash|serial|ssh)\s*:", re.MULTILINE
)
"""A key of platforms, toolchains, fleets and board files, which may be next to recipes."""

RECIPES = Path("recipes")
"""The folder of a repository's recipes. A name without a path means a recipe in this folder."""


chosen: set[str] = set()
"""The recipes to load, as arguments of the command line, or an empty set for all recipes."""


def enter_repository() -> None:
    """Change to the nearest folder with a task file. Arguments stay relative to the old folder."""
    start = Path.cwd()
    loader.initial_workdir = str(start)
    roots = (folder for folder in (start, *start.parents) if (folder / TASK_FILE).is_file())
    os.chdir(next(roots, start))


def find_start() -> Path:
    return Path(os.path.relpath(get_initial_workdir() or os.curdir))


def find_recipes() -> list[Layers]:
    """Return the recipes that the arguments name, by default all recipes in ``recipes/``.

    An argument is a path, a name in ``recipes/``, or a pattern. Commas and repeated arguments add
    recipes. Overlays follow a recipe after colons. Raises UserError if an argument matches no file.
    """
    arguments = read_arguments()
    if arguments is None:
        return [Layers(path) for path in sorted(RECIPES.glob("*.yaml"))]
    recipes = [layers for argument in arguments for layers in find_layers(argument)]
    return list({str(layers): layers for layers in recipes}.values())


def choose_recipes(recipes: Sequence[Layers]) -> list[Layers]:
    return [each for each in recipes if not chosen or str(each) in chosen]


@contextmanager
def choose(task_file: ModuleType, recipes: Iterable[object]) -> Iterator[None]:
    """Restrict the jobs of a task file to recipes, which are arguments of the command line."""
    chosen.update(map(str, recipes))
    task_file.get_jobs.cache_clear()
    try:
        yield
    finally:
        chosen.clear()
        task_file.get_jobs.cache_clear()


def find_layers(argument: str, start: Path | None = None) -> list[Layers]:
    """Return the recipes of one argument with all combinations of overlays.

    Paths are relative to ``start``, by default the folder of the command. Raises UserError if a
    file is missing.
    """
    first, *names = split_overlays(argument, find_start() if start is None else start)
    if not all((first, *names)):
        raise UserError(f"recipe={argument}: expected a file before and after each colon")
    overlays = product(*(find_files(name, start) for name in names))
    return [Layers(path, each) for path, each in product(find_files(first, start), overlays)]


def read_arguments() -> Sequence[str] | None:
    """Return the values of ``recipe=`` on the command line, or None without the argument.

    If an argument is repeated, doit returns only the last value.
    """
    last = get_var("recipe")
    if last is None:
        return None
    typed = [
        argument.partition("=")[2] for argument in sys.argv[1:] if argument.startswith("recipe=")
    ]
    given = typed if last in typed else [last]
    return [part.strip() for argument in given for part in argument.split(",") if part.strip()]


def find_files(argument: str, start: Path | None = None) -> list[Path]:
    """Return the files of one argument, which is a path or a name in ``recipes/``.

    A path is relative to ``start``, by default the folder of the command. Raises UserError if there
    is no such file, or if the file is not a recipe.
    """
    folders = list(dict.fromkeys((find_start() if start is None else start, Path(), RECIPES)))
    for folder in folders:
        if any(c in argument for c in WILDCARDS):
            files = [path for path in match(folder / argument) if not is_description(path)]
        else:
            named = (folder / argument, folder / f"{argument}.yaml")
            files = [p for p in named if os.path.isfile(p)][:1]  # noqa: PTH113  # any length
        if files and is_model(files[0]):
            advice = f"`firmwright init {argument}` writes a recipe for it"
            raise UserError(f"recipe={argument}: is a model; {advice}")
        if files and is_description(files[0]):
            advice = (
                "platforms and toolchains are named by platform= and toolchain=, and a fleet is "
                "built by `firmwright fleet`"
            )
            raise UserError(f"recipe={argument}: does not describe a network; {advice}")
        if files:
            return files
    if os.path.isdir(argument):  # noqa: PTH112  # isdir is False if a name is too long
        raise UserError(
            f"recipe={argument}: is a folder; for all its recipes, write {Path(argument)}/*.yaml"
        )
    known = list(list_names(folders))
    begin = "; `firmwright init` writes one for a model"
    hint = did_you_mean(argument.removesuffix(".yaml"), known) or begin
    raise UserError(f"recipe={argument}: no such recipe{hint}")


def match(pattern: Path) -> list[Path]:
    """Return the files whose names match a pattern with or without the suffix."""
    root, rest = Path(pattern.anchor), str(pattern.relative_to(pattern.anchor))
    paths = {path for suffix in ("", *SUFFIXES) for path in root.glob(f"{rest}{suffix}")}
    return sorted(path for path in paths if path.is_file() and path.suffix in SUFFIXES)


def is_model(path: Path) -> bool:
    if path.suffix in SUFFIXES:
        return False
    # The import is late, because an up-to-date build does not read recipes.
    from firmwright.recipe.defaults import FORMATS_BY_SUFFIX

    return path.suffix.lower() in FORMATS_BY_SUFFIX


def is_description(path: Path) -> bool:
    """Return whether a file describes a platform, a toolchain or a device.

    The result is False if the file cannot be read.
    """
    with suppress(OSError):
        return bool(DESCRIPTION.search(path.read_text(encoding="utf-8", errors="replace")))
    return False


def list_names(folders: Sequence[Path]) -> Iterator[str]:
    """Yield the shortest names of the recipes in folders, which may contain other files."""
    for folder in folders:
        for path in folder.glob("[!.]*.yaml"):
            if path.is_file() and not is_description(path):
                yield path.stem if folder == RECIPES else str(path.with_suffix(""))


def read_platforms() -> list[str]:
    """Return the platforms of the comma-separated argument, or [] without the argument.

    Raises UserError if a name is empty or occurs twice.
    """
    argument = get_var("platform")
    if argument is None:
        return []
    names = [name.strip() for name in argument.split(",")]
    if "" in names:
        raise UserError(
            f"platform={argument}: a name is missing next to a comma; add it, or remove the comma"
        )
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"platform={argument}: '{name}' is listed twice; remove one entry")
    return names


def name_build(job: Job) -> str:
    """Return the name of a job's build, such as ``digits`` or ``digits-rv32-bare``.

    The name contains the platform if the command line names several platforms.
    """
    return job.bundle_name if len(read_platforms()) > 1 else job.recipe.name


def begin_log() -> None:
    """Follow ``verbose``, ``debug`` and ``log``; raise UserError for a file that is not a log."""
    path = get_var(LOG)
    file = (find_start() / path).absolute() if path else None
    run_log.begin(run_log.Request(is_asked(VERBOSE), is_asked(DEBUG), file))
