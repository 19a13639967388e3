"""Reads the YAML files that describe platforms and toolchains.

Files of firmwright and of installed packages are read without validation, because importing
jsonschema is slow and tests validate these files. Custom files are validated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from firmwright.documents.schema_check import Finding, read_schema
from firmwright.errors import DiagnosticError, UserError, did_you_mean
from firmwright.plugins import describe_incomplete, find_plugins

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


T = TypeVar("T", covariant=True)


def is_custom_file(name: str) -> bool:
    """Return whether a reference is the path of a custom file and not a built-in name."""
    return Path(name).suffix in (".yaml", ".yml")


class Loader(Protocol[T]):
    """A function that loads a description by name, or from a custom file in a folder."""

    def __call__(self, name_or_path: str, relative_to: Path | None = None) -> T: ...


def keep_ready(load: Loader[T]) -> Loader[T]:
    """Return a loader that reads a built-in description once and a custom file every time."""
    load_ready = cache(load)

    @wraps(load)
    def load_kept(name_or_path: str, relative_to: Path | None = None) -> T:
        if is_custom_file(name_or_path):
            return load(name_or_path, relative_to)
        return load_ready(name_or_path)

    return load_kept


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest name, or with all names and the form of a custom file."""
    hint = did_you_mean(name, known)
    form = f"; a custom file is named with its suffix, as {name}.yaml"
    return hint if hint.endswith("?") else f"{hint}{form}"


def resolve_description(name: str, folder: Path) -> str:
    """Return a name unchanged, or a path below ``folder`` that contains a slash."""
    if "/" not in name and not is_custom_file(name):
        return name
    path = (folder / name).as_posix()
    return path if "/" in path else f"./{path}"


def read_builtin_yaml(text: str) -> dict[str, Any]:
    """Return the data of a built-in file without validation."""
    import yaml  # an up-to-date build does not need this import

    data: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return data


def list_names(folder: Traversable) -> Iterator[str]:
    entries = (Path(entry.name) for entry in folder.iterdir())
    return (entry.stem for entry in entries if entry.suffix == ".yaml")


@cache
def list_built_in(folder: str) -> dict[str, Path]:
    location = Path(str(files("firmwright.toolchains"))).joinpath(*folder.split("/"))
    return {name: location / f"{name}.yaml" for name in sorted(list_names(location))}


@dataclass(frozen=True)
class DescriptionKind:
    """One kind of description: its name, and the folder of the built-in files.

    Installed packages add files. The entry points of ``group`` name the Python packages whose
    folders contain these files. ``check`` yields the errors that a schema cannot find. The
    arguments of ``check`` are the data of a file and the file's folder.
    """

    noun: str
    folder: str
    schema: str
    check: Callable[[Mapping[str, Any], Path], Iterator[Finding]] = lambda _, __: iter(())
    group: str = ""

    def names(self) -> tuple[str, ...]:
        return tuple(list_built_in(self.folder))

    def installed_folders(self) -> dict[str, Traversable]:
        """Return a mapping from names of descriptions in installed packages to folders.

        Raises UserError if an installation is incomplete.
        """
        folders = {}
        for point in find_plugins(self.group) if self.group else ():
            try:
                folder = files(point.value)
            except ModuleNotFoundError as error:
                raise describe_incomplete(point, error) from None
            folders.update(dict.fromkeys(list_names(folder), folder))
        return folders

    def load(self, name_or_path: str, relative_to: Path | None = None) -> dict[str, Any]:
        """Return the description of this name, or of this ``.yaml`` file.

        Raises UserError if the name is unknown, and DiagnosticError if the file has errors.
        """
        if is_custom_file(name_or_path):
            return self._load_file(name_or_path, relative_to)
        return read_builtin_yaml(self.read_text(name_or_path))

    def read_text(self, name: str) -> str:
        """Return the text of a built-in or installed description.

        Raises UserError if the name is unknown.
        """
        return self._find_ready(name).read_text(encoding="utf-8")

    def find_file(self, name_or_path: str, relative_to: Path | None = None) -> Path:
        if is_custom_file(name_or_path):
            return (relative_to or Path()) / name_or_path
        return Path(str(self._find_ready(name_or_path)))

    def load_schema(self) -> dict[str, Any]:
        return read_schema("toolchains", self.schema)

    def _load_file(self, path: str, relative_to: Path | None) -> dict[str, Any]:
        from firmwright.documents.document import load_document

        location = (relative_to or Path()) / path
        document = load_document(location, self.load_schema(), shown_as=path)
        findings = self.check(document.data, location.parent)
        diagnostics = [document.make_diagnostic(f.pointer, f.message, f.key) for f in findings]
        if diagnostics:
            raise DiagnosticError(diagnostics)
        return document.data

    def _find_ready(self, name: str) -> Traversable:
        built_in = list_built_in(self.folder)
        if name in built_in:
            return built_in[name]
        installed = self.installed_folders()
        if name not in installed:
            hint = suggest_name(name, (*built_in, *installed))
            raise UserError(f"unknown {self.noun} '{name}'{hint}")
        return installed[name] / f"{name}.yaml"
