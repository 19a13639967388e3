"""Read the YAML files that describe platforms and toolchains.

The package's own files are read without validation (a test validates them), so that a build
with nothing to do never pays for the import of jsonschema; a user's own file is validated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from firmwright.documents.schema_check import Finding
from firmwright.errors import DiagnosticError, UserError, did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class DescriptionKind:
    """One kind of description: what it is called, and where in the package its files lie.

    ``check`` finds what a schema cannot know.
    """

    noun: str
    folder: str
    schema: str
    check: Callable[[Mapping[str, Any]], Iterator[Finding]] = lambda _: iter(())

    def names(self) -> tuple[str, ...]:
        """Return the names of the package's own descriptions, sorted."""
        entries = (Path(entry.name) for entry in self._folder().iterdir())
        return tuple(sorted(entry.stem for entry in entries if entry.suffix == ".yaml"))

    def load(self, name_or_path: str, relative_to: Path | None = None) -> dict[str, Any]:
        """Return the description of this name, or the one in this ``.yaml`` file.

        Raises UserError for an unknown name and DiagnosticError for a file with mistakes.
        """
        if Path(name_or_path).suffix in (".yaml", ".yml"):
            return self._load_file(name_or_path, relative_to)
        if name_or_path not in self.names():
            hint = did_you_mean(name_or_path, self.names())
            raise UserError(f"unknown {self.noun} '{name_or_path}'{hint}")
        text = (self._folder() / f"{name_or_path}.yaml").read_text(encoding="utf-8")
        description: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return description

    def load_schema(self) -> dict[str, Any]:
        """Return the JSON schema that every description of this kind fulfils."""
        text = (files("firmwright.toolchains") / self.schema).read_text(encoding="utf-8")
        schema: dict[str, Any] = json.loads(text)
        return schema

    def _load_file(self, path: str, relative_to: Path | None) -> dict[str, Any]:
        from firmwright.documents.document import load_document

        place = (relative_to or Path()) / path
        document = load_document(place, self.load_schema(), shown_as=path)
        found = [document.make_diagnostic(f.pointer, f.message) for f in self.check(document.data)]
        if found:
            raise DiagnosticError(found)
        return document.data

    def _folder(self) -> Traversable:
        return files("firmwright.toolchains").joinpath(*self.folder.split("/"))
