"""A recipe's keys ``extensions`` and ``libraries``: what a user adds to the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.data.sources import module_file, portable_path
from firmwright.documents.schema_check import Finding, quote
from firmwright.documents.yaml_text import Pointer


@dataclass(frozen=True)
class Library:
    """C code of the user's: ``sources`` with their ``includes``, or an ``archive``; file paths."""

    name: str
    sources: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    archive: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.sources, *self.includes, *([] if self.archive is None else [self.archive]))

    def to_dict(self) -> dict[str, Any]:
        """Return the normal form of an item of the recipe's key ``libraries``."""
        named = {"sources": list(self.sources), "includes": list(self.includes)}
        return {"name": self.name, **named, "archive": self.archive}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Library:
        """Return the library of a checked item of the recipe."""
        sources, includes = tuple(data.get("sources", ())), tuple(data.get("includes", ()))
        return cls(data["name"], sources, includes, data.get("archive"))


def portable_library(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a normal form without absolute paths: of those only the file's name stays."""
    return {
        "name": data["name"],
        **{key: [portable_path(p) for p in data[key]] for key in ("sources", "includes")},
        "archive": portable_path(data["archive"]),
    }


def find_extension_files(data: Mapping[str, Any]) -> Iterator[tuple[Pointer, str]]:
    """Yield the files that both keys name; what is of the wrong type is passed over."""
    for index, reference in enumerate(get_list(data, "extensions")):
        if isinstance(reference, str) and ":" in reference:
            yield ("extensions", index), str(module_file(reference, Path()))
    for index, library in enumerate(get_list(data, "libraries")):
        if not isinstance(library, Mapping):
            continue
        for key in ("sources", "includes"):
            yield from (
                (("libraries", index, key, i), name)
                for i, name in enumerate(get_list(library, key))
            )
        if isinstance(library.get("archive"), str):
            yield ("libraries", index, "archive"), library["archive"]


def find_duplicate_names(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the libraries that share a name, and their files that do: they go into one folder."""
    libraries = enumerate(get_list(data, "libraries"))
    named = [(("libraries", i, "name"), e.get("name")) for i, e in libraries if isinstance(e, dict)]
    files = [(p, Path(file).name) for p, file in find_extension_files(data) if p[0] == "libraries"]
    for what, found in (("libraries", named), ("files of libraries", files)):
        names = [name for _, name in found]
        for index, (pointer, name) in enumerate(found):
            if isinstance(name, str) and name in names[:index]:
                yield Finding(pointer, f"two {what} are named {quote(name)}")


def get_list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []
