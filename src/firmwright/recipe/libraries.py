"""A recipe's keys ``extensions`` and ``libraries``: what a user adds to the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.documents.schema_check import Finding, quote
from firmwright.recipe.files import find_references


@dataclass(frozen=True)
class Library:
    """C code of the user's: ``sources`` with their ``includes``, or an ``archive``; file paths."""

    name: str
    sources: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    archive: str | None = None


def find_duplicate_names(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the libraries that share a name, and their files that do: they go into one folder."""
    libraries = data.get("libraries")
    listed = enumerate(libraries if isinstance(libraries, list) else ())
    named = [(("libraries", i, "name"), e.get("name")) for i, e in listed if isinstance(e, dict)]
    references = [r for r in find_references(data) if r.pointer[0] == "libraries"]
    files = [(r.pointer, Path(r.value).name) for r in references]
    for what, found in (("libraries", named), ("files of libraries", files)):
        names = [name for _, name in found]
        for index, (pointer, name) in enumerate(found):
            if isinstance(name, str) and name in names[:index]:
                yield Finding(pointer, f"two {what} are named {quote(name)}")
