"""Makes the matrix of a fleet: a job for each combination of recipe, platform and options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from firmwright.documents.chain import Layers, list_chain, parse_layers
from firmwright.documents.document import check_document, read_bytes
from firmwright.documents.schema_check import Finding
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError, UserError, did_you_mean
from firmwright.pipeline.recipe_arguments import find_layers
from firmwright.recipe.moved_paths import rebase_argument
from firmwright.recipe.overrides import complete_key, is_key, list_overrides
from firmwright.recipe.schema import load_schema
from firmwright.toolchain import load_platform, platform_names

UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
"""The characters that are replaced in the name of a job's folder."""


@dataclass(frozen=True)
class FleetJob:
    """A recipe to build: its files, relative to the current folder, and its overridden keys."""

    name: str
    recipe: str
    overrides: dict[str, str]

    @property
    def pair(self) -> tuple[str, str]:
        """Return the names of recipe and platform. The platform is '' if the recipe states it."""
        layers = parse_layers(self.recipe, Path())
        recipe = ":".join(file.stem for file in layers.files)
        return recipe, Path(self.overrides.get("platform", "")).stem

    def list_files(self) -> list[Path]:
        return list_chain(parse_layers(self.recipe, Path()))

    def list_arguments(self) -> list[str]:
        """Return the arguments of the job's build command: ``recipe=…``, ``platform=…``."""
        return [
            f"recipe={self.recipe}",
            *(f"{name}={text}" for name, text in self.overrides.items()),
        ]


@dataclass
class Matrix:
    """The jobs that a fleet file states, and the errors in the file."""

    folder: Path
    jobs: dict[str, FleetJob] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, pointer: Pointer, recipe: Layers, overrides: Mapping[str, str]) -> None:
        """Add a job. Jobs with equal names are an error, because both jobs would use one folder."""
        job = make_job(recipe, {name: self.rebase(name, text) for name, text in overrides.items()})
        other = self.jobs.setdefault(job.name, job)
        if other == job and other is not job:
            self.add_error(pointer, f"the job '{job.name}' already exists; remove one of the two")
        elif other is not job:
            both = " and ".join(" ".join(each.list_arguments()) for each in (other, job))
            hint = "rename one of the files"
            self.add_error(pointer, f"two jobs are named '{job.name}': {both}; {hint}")

    def rebase(self, name: str, text: str) -> str:
        """Return the value of an option. Paths become relative to the current folder."""
        if name not in list_overrides():
            return rebase_argument(name, text, self.folder, Path())
        file = list_overrides()[name].find_file(text)
        return os.path.relpath(self.folder / file) if file else text

    def add_error(self, pointer: Pointer, message: str, key: bool = False) -> None:
        self.findings.append(Finding(pointer, message, key))

    def find_recipes(self, pointer: Pointer, argument: str) -> list[Layers]:
        """Return the recipes that an argument names. Records an error if no recipe exists."""
        try:
            return find_layers(argument, self.folder)
        except UserError as error:
            self.add_error(pointer, str(error).removeprefix(f"recipe={argument}: "))
            return []

    def check_value(self, pointer: Pointer, name: str, text: str) -> None:
        """Record the errors of an option's value that do not depend on the recipe."""
        override = list_overrides().get(name)
        if override is None:  # the value is checked with the recipe
            return
        for message in override.find_errors(text):
            self.add_error(pointer, message)
        file = override.find_file(text)
        if file and not (self.folder / file).is_file():
            self.add_error(pointer, f"no such file: {self.folder / file}; correct the path")
        elif name == "platform" and not file and not is_platform(text):
            hint = did_you_mean(text, platform_names())
            self.add_error(pointer, f"unknown platform '{text}'{hint}")

    def check_axes(self, pointer: Pointer, names: Iterable[str], known: Sequence[str]) -> bool:
        """Return whether all keys at a position are known. Records unknown keys as errors."""
        unknown = [name for name in names if name not in known]
        for name in unknown:
            message = f"unknown option '{name}'{did_you_mean(name, known)}"
            self.add_error((*pointer, name), message, key=True)
        return not unknown


def is_platform(text: str) -> bool:
    """Return whether a text names an installed platform, or is an alias of a platform."""
    names = platform_names()
    return text in names or any(text in load_platform(name).aliases for name in names)


def make_job(recipe: Layers, overrides: Mapping[str, str]) -> FleetJob:
    """Return the job of a recipe. The job's name contains the recipe's files and all overrides."""
    parts = [file.stem for file in recipe.files]
    for name, text in overrides.items():
        parts.append(Path(text).stem if name == "platform" else f"{name}-{text}")
    files = ":".join(os.path.relpath(file) for file in recipe.files)
    return FleetJob(UNFIT.sub("-", "-".join(parts)), files, dict(overrides))


def read_fleet(path: Path) -> list[FleetJob]:
    """Return the jobs of a fleet file in order. Paths are relative to the current folder.

    Raises DiagnosticError with all errors of the file. The recipes are not read.
    """
    content = read_bytes(path, str(path))
    document, diagnostics = check_document(content, load_schema("fleet"), str(path))
    if diagnostics and not {"model", "networks"}.isdisjoint(document.data):
        raise UserError(f"{path}: this is a recipe; name it by recipe={path}")
    if diagnostics:
        raise DiagnosticError(diagnostics)
    matrix = Matrix(path.parent)
    fill_matrix(matrix, document.data)
    if matrix.findings:
        raise DiagnosticError(
            document.make_diagnostic(f.pointer, f.message, f.key) for f in matrix.findings
        )
    return list(matrix.jobs.values())


def fill_matrix(matrix: Matrix, data: Mapping[str, Any]) -> None:
    if "recipes" in data:
        multiply(matrix, data)
    else:
        for key in data.keys() - {"include"}:
            matrix.add_error((key,), "has no effect without `recipes`; add `recipes`", key=True)
    for number, entry in enumerate(data.get("include", ())):
        include(matrix, ("include", number), entry)
    if not matrix.jobs and not matrix.findings:
        pointer = ("exclude",) if "exclude" in data else ()
        matrix.add_error(pointer, "no build is left; add one to `recipes` or `include`")


def multiply(matrix: Matrix, data: Mapping[str, Any]) -> None:
    """Add a job for each combination that is not excluded."""
    options = {n: v for n, v in data.get("options", {}).items() if check_option(matrix, n, v)}
    platforms = data.get("platforms", ())
    for number, platform in enumerate(platforms):
        matrix.check_value(("platforms", number), "platform", platform)
    axes = {"platform": platforms, **options} if platforms else options
    combinations = [dict(zip(axes, map(to_text, v), strict=True)) for v in product(*axes.values())]
    excluded = dict(read_exclusions(matrix, data.get("exclude", ()), ("recipe", *axes)))
    unused = set(excluded)
    for number, argument in enumerate(data["recipes"]):
        pointer = ("recipes", number)
        for recipe, overrides in product(matrix.find_recipes(pointer, argument), combinations):
            named = {"recipe": recipe.path.stem, **overrides}
            fitting = {number for number, entry in excluded.items() if fits(entry, named)}
            unused -= fitting
            if not fitting:
                matrix.add(pointer, recipe, overrides)
    for number in unused if not matrix.findings else ():
        matrix.add_error(("exclude", number), "matches no build of the matrix; remove it")


def check_option(matrix: Matrix, name: str, values: Sequence[Any]) -> bool:
    """Return whether an option is known. Records errors of the option and of its values."""
    known = [each for each in list_overrides() if each != "platform"]
    if not is_option(name) and not matrix.check_axes(("options",), [name], known):
        return False
    for number, value in enumerate(values):
        matrix.check_value(("options", name, number), name, to_text(value))
    return True


def is_option(name: str) -> bool:
    """Return whether a name is a recipe key without a short name, such as ``budget.flash``."""
    return is_key(name) and complete_key(name) == name and name != "platform"


def read_exclusions(
    matrix: Matrix, entries: Sequence[Mapping[str, Any]], axes: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the patterns of each entry whose axes are known."""
    for number, entry in enumerate(entries):
        if matrix.check_axes(("exclude", number), entry, axes):
            yield number, {name: to_text(value) for name, value in entry.items()}


def fits(patterns: Mapping[str, str], overrides: Mapping[str, str]) -> bool:
    return all(fnmatchcase(overrides[name], pattern) for name, pattern in patterns.items())


def include(matrix: Matrix, pointer: Pointer, entry: Mapping[str, Any]) -> None:
    overrides = {name: to_text(value) for name, value in entry.items() if name != "recipe"}
    known = ("recipe", *list_overrides(), *filter(is_option, overrides))
    if not matrix.check_axes(pointer, overrides, known):
        return
    for name, text in overrides.items():
        matrix.check_value((*pointer, name), name, text)
    for recipe in matrix.find_recipes((*pointer, "recipe"), entry["recipe"]):
        matrix.add(pointer, recipe, overrides)


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Raise UserError if no recipe accepts a value. Paths start at the current folder."""
    matrix = Matrix(Path())
    for name, text in overrides.items():
        matrix.check_value((), name, text)
        for finding in matrix.findings:
            raise UserError(f"{name}={text}: {finding.message}")


def to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def cross(recipes: Sequence[Layers], platforms: Sequence[str], start: Path) -> list[FleetJob]:
    """Return the jobs of recipes and platforms. Paths of platforms start at ``start``.

    Each recipe is built for the stated platform if ``platforms`` is empty. Raises UserError with
    all errors.
    """
    matrix = Matrix(start)
    for number, platform in enumerate(platforms):
        matrix.check_value((number,), "platform", platform)
    for recipe in recipes:
        for overrides in [{"platform": platform} for platform in platforms] or [{}]:
            matrix.add((), recipe, overrides)
    if matrix.findings:
        raise UserError("\n".join(finding.message for finding in matrix.findings))
    return list(matrix.jobs.values())
