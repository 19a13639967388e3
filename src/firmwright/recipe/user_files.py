"""Finds the user's files that a recipe names.

The schema marks the values that name files with one of FILE_FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from stat import S_ISDIR
from typing import Any

from firmwright.custom.source_files import list_source_files
from firmwright.data.patterns import WILDCARDS
from firmwright.data.sample_sources import (
    DataFile,
    find_package_folder,
    list_files,
    module_file,
)
from firmwright.documents.schema_check import Finding, Schema, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import UserError
from firmwright.models.formats import describe_saved_model
from firmwright.models.onnx.external_data import external_files
from firmwright.recipe.schema import rewrite_data


@dataclass(frozen=True)
class FileFormat:
    """The relation between a value and the files that it names.

    ``find_required`` returns the path, relative to the recipe's folder, that must exist when the
    recipe is read, or None. ``list_files`` returns the existing files that the build reads. The
    files of a function are its module and all modules in the folder that the module imports.
    """

    find_required: Callable[[str], str | None] = lambda _: None
    list_files: Callable[[Any, Path], list[Path]] = lambda name, folder: [folder / name]
    is_path: bool = False
    is_function: bool = False
    may_be_folder: bool = False


@dataclass(frozen=True)
class FileReference:
    """A value that names the user's files, and the value's pointer in the recipe."""

    pointer: Pointer
    value: Any
    format: FileFormat

    def list_files(self, folder: Path) -> list[Path]:
        return self.format.list_files(self.value, folder)


def is_description_file(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _list_modules(function: str, folder: Path) -> list[Path]:
    return list_source_files(function.partition(":")[0], folder)


FILE_FORMATS = {
    "user-file": FileFormat(str, is_path=True),
    "user-files": FileFormat(
        lambda name: None if any(c in name for c in WILDCARDS) else name,
        lambda name, folder: list_files(DataFile(name), folder),
        is_path=True,
        may_be_folder=True,
    ),
    "package-files": FileFormat(
        list_files=lambda stated, folder: list_files(DataFile(**stated), folder),
        may_be_folder=True,
    ),
    "model-file": FileFormat(
        str,
        lambda name, folder: [folder / name, *external_files(folder / name)],
        is_path=True,
    ),
    "description": FileFormat(
        lambda name: name if is_description_file(name) else None,
        lambda name, folder: [folder / name] if is_description_file(name) else [],
        is_path=True,
    ),
    "user-function": FileFormat(
        lambda name: str(module_file(name, Path())) if ":" in name else None,
        _list_modules,
        is_function=True,
    ),
    "python-function": FileFormat(list_files=_list_modules, is_function=True),
}
"""A mapping from the schema's ``format`` to the formats.

A ``user-function`` is in the recipe's folder. A ``python-function`` may be in an installed package.
"""


DISTRIBUTIONS = {"skimage": "scikit-image", "sklearn": "scikit-learn"}
"""The names in pip of packages with data, if they differ from the names in Python."""


def find_references(data: Any) -> list[FileReference]:
    """Return the values that name files in a recipe's data.

    Values of the wrong type are skipped.
    """
    references: list[FileReference] = []

    def visit(pointer: Pointer, value: Any, schema: Schema) -> Any:
        form = FILE_FORMATS.get(schema.get("format", ""))
        if form and (isinstance(value, str) or schema["type"] == "object"):
            references.append(FileReference(pointer, value, form))
        return value

    rewrite_data(data, visit)
    return references


def find_missing_files(references: Iterable[FileReference], folder: Path) -> Iterator[Finding]:
    """Yield the files that a recipe in ``folder`` names and that cannot be read."""
    for reference in references:
        yield from find_missing_package(reference)
        yield from find_wide_pattern(reference, folder)
        name = reference.format.find_required(reference.value)
        if name is None:
            continue
        file = folder / name
        shown = quote(str(file))
        try:
            if S_ISDIR(file.stat().st_mode) and not reference.format.may_be_folder:
                wrong = f"expected a file, found the folder {shown}; name a file in it"
                saved = describe_saved_model(file, name) if "model" in reference.pointer else None
                yield Finding(reference.pointer, saved or wrong)
        except FileNotFoundError:
            advice = "a relative path starts at the recipe's folder"
            yield Finding(reference.pointer, f"no such file: {shown}; {advice}")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            yield Finding(
                reference.pointer, f"cannot read {shown}: {reason}; check its permissions"
            )


def find_wide_pattern(reference: FileReference, folder: Path) -> Iterator[Finding]:
    """Yield an error if the pattern of a reference is too wide, or matches too many files."""
    value = reference.value
    stated = value if isinstance(value, dict) else {"path": value}
    path, package = stated.get("path"), stated.get("package")
    is_pattern = isinstance(path, str) and any(c in path for c in WILDCARDS)
    if is_pattern and reference.format.may_be_folder and is_name(package):
        try:
            list_files(DataFile(path, package=package), folder)
        except UserError as error:
            yield Finding(reference.pointer, str(error))


def is_name(package: object) -> bool:
    """Return whether an optional package name is valid. The schema reports invalid names."""
    return package is None or (isinstance(package, str) and package.isidentifier())


def find_missing_package(reference: FileReference) -> Iterator[Finding]:
    """Yield the Python package that contains the files of a reference if it is not installed."""
    package = reference.value.get("package") if isinstance(reference.value, dict) else None
    if package and is_name(package) and not find_package_folder(package):
        advice = f"python -m pip install {DISTRIBUTIONS.get(package, package)}"
        message = f"the Python package {quote(package)} is not installed; get it by '{advice}'"
        yield Finding((*reference.pointer, "package"), message)


def make_portable(data: Any) -> Any:
    """Return a recipe's data with only the file name of each absolute path."""

    def visit(_: Pointer, value: Any, schema: Schema) -> Any:
        form = FILE_FORMATS.get(schema.get("format", ""))
        if not (form and form.is_path and isinstance(value, str)):
            return value
        return PurePath(value).name if PurePath(value).is_absolute() else str(PurePosixPath(value))

    return rewrite_data(data, visit)
