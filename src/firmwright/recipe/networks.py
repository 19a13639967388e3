"""A recipe of several networks: which recipes, for which platform, in one firmware."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.codegen.names import c_identifier
from firmwright.documents.document import check_document, read_bytes
from firmwright.documents.schema_check import Finding, find_errors, quote
from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog, find_name_errors
from firmwright.recipe.recipe import Recipe, read_recipe
from firmwright.recipe.schema import load_schema
from firmwright.toolchain.descriptions import is_own_file

_NETWORKS = re.compile(rb"^networks\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Networks:
    """Several networks in one firmware: ``recipes`` are files by the prefix of their C names.

    Paths are as seen from here. ``concurrent``: they run at the same time.
    """

    path: Path
    name: str
    description: str | None
    recipes: Mapping[str, Path]
    platform: str
    toolchain: str | None
    concurrent: bool

    @property
    def c_prefix(self) -> str:
        return c_identifier(self.name)

    def list_overrides(self, recipe: Path) -> dict[str, str]:
        """Return what takes the place of a recipe's own words, as seen from its folder."""
        stated = {"platform": self.platform, "toolchain": self.toolchain}
        return {
            key: place_name(value, self.path.parent, recipe.parent)
            for key, value in stated.items()
            if value is not None
        }

    def make_member(self, prefix: str, recipe: Recipe) -> Recipe:
        """Return the recipe of a network as it is part of this firmware."""
        name = f"{self.name}-{prefix}"
        own = {"name": name, "c_prefix": prefix, "arena": "caller"}
        return read_recipe(recipe.path, {**recipe.data, **own})


def names_networks(path: Path) -> bool:
    """Tell whether a file is a recipe of several networks."""
    return bool(_NETWORKS.search(read_bytes(path, str(path))))


def load_networks(path: Path, catalogue: Catalog) -> Networks:
    """Read and check a recipe of several networks, but not the recipes that it names.

    Raises DiagnosticError with all mistakes.
    """
    document, found = check_document(
        read_bytes(path, str(path)), load_schema("networks"), str(path)
    )
    data = document.data
    for finding in find_rule_errors(data, path, catalogue):
        found.append(document.make_diagnostic(finding.pointer, finding.message, finding.key))
    if found:
        raise DiagnosticError(found)
    return Networks(
        path=path,
        name=data.get("name", path.stem),
        description=data.get("description"),
        recipes={prefix: path.parent / file for prefix, file in data["networks"].items()},
        platform=data["platform"],
        toolchain=data.get("toolchain"),
        concurrent=data["concurrent"],
    )


def find_rule_errors(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> Iterator[Finding]:
    """Yield what the schema cannot find; values of the wrong type are skipped."""
    schema = load_schema()["properties"]["c_prefix"]
    name = data.get("name", path.stem)
    networks = data.get("networks")
    networks = networks if isinstance(networks, dict) else {}
    for prefix, file in networks.items():
        pointer = ("networks", prefix)
        for error in find_errors(prefix, schema):
            yield Finding(pointer, error.message, key=True)
        if isinstance(name, str) and prefix.upper() == c_identifier(name).upper():
            message = f"{quote(prefix)} is also the name of the firmware; choose another one"
            yield Finding(pointer, message, key=True)
        alike = [each for each in networks if each != prefix and each.upper() == prefix.upper()]
        if alike:
            message = f"{quote(prefix)} has the macros of {quote(alike[0])}; choose another name"
            yield Finding(pointer, message, key=True)
        if not isinstance(file, str):
            continue
        recipe = path.parent / file
        if not recipe.is_file():
            yield Finding(pointer, f"no such file: {recipe}")
        elif names_networks(recipe):
            yield Finding(pointer, f"{recipe} names several networks itself; name those")
    named = {key: data[key] for key in ("platform", "toolchain") if key in data}
    if not is_own_file(str(named.get("platform", ""))):
        yield from find_name_errors(named, catalogue)


def place_name(value: str, start: Path, folder: Path) -> str:
    """Return a name as it is, a path as seen from another folder."""
    return os.path.relpath(start / value, folder) if is_own_file(value) else value
