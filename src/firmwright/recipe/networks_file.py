"""Reads the recipes and the platform of one firmware with several networks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from firmwright.codegen.names import c_identifier
from firmwright.documents.chain import Layers, parse_layers, read_chain
from firmwright.documents.document import Document, complete_document
from firmwright.documents.schema_check import Finding, find_errors, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError
from firmwright.recipe.build_systems import find_joint_export_errors
from firmwright.recipe.catalog import Catalog, find_name_errors
from firmwright.recipe.recipe import ExportOptions, Recipe
from firmwright.recipe.schema import load_schema
from firmwright.recipe.spelling import normalize_data
from firmwright.toolchain.descriptions import is_custom_file


@dataclass(frozen=True)
class Networks:
    """Several networks in one firmware.

    ``recipes`` maps the prefix of the C names to the recipe. Paths are relative to the current
    folder. If ``concurrent`` is true, the networks run at the same time.
    """

    layers: Layers
    name: str
    description: str | None
    recipes: Mapping[str, Layers]
    platform: str
    toolchain: str | None
    concurrent: bool
    export: ExportOptions | None
    files: Mapping[Path, str]
    """The SHA-256 of the file and of its bases."""

    @property
    def path(self) -> Path:
        return self.layers.path

    @property
    def c_prefix(self) -> str:
        return c_identifier(self.name)

    def list_overrides(self, recipe: Layers) -> dict[str, str]:
        """Return the platform and the toolchain that replace the values of a network's recipe."""
        stated = {"platform": self.platform, "toolchain": self.toolchain}
        return {
            key: rebase_name(value, self.path.parent, recipe.folder)
            for key, value in stated.items()
            if value is not None
        }

    def make_member(self, prefix: str, recipe: Recipe) -> Recipe:
        name = f"{self.name}-{prefix}"
        overrides = {"name": name, "c_prefix": prefix, "arena": "caller"}
        return recipe.replace_data({**recipe.data, **overrides})


def read_export(data: Mapping[str, Any]) -> ExportOptions | None:
    normal = normalize_data({key: value for key, value in data.items() if key == "export"})
    return msgspec.convert(normal.get("export"), ExportOptions | None)


def select_exports(overrides: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in overrides.items() if key.split(".")[0] == "export"}


def names_networks(layers: Layers) -> bool:
    return "networks" in layers.chain.document.data


def load_networks(layers: Layers, catalogue: Catalog) -> Networks:
    """Read and check a recipe of several networks, but not the recipes that it names.

    Values of the command line, except `export`, belong to the named recipes. Raises DiagnosticError
    with all errors.
    """
    chain = read_chain(replace(layers, overrides=select_exports(layers.overrides)))
    document, diagnostics = complete_document(
        rebase_names(chain.document, layers.folder), load_schema("networks"), chain.findings
    )
    data, path = document.data, layers.path
    for finding in find_rule_errors(data, path, catalogue):
        diagnostics.append(document.make_diagnostic(finding.pointer, finding.message, finding.key))
    if diagnostics:
        raise DiagnosticError(diagnostics)
    return Networks(
        layers=layers,
        name=data.get("name", path.stem),
        description=data.get("description"),
        recipes={
            name: parse_layers(text, layers.folder) for name, text in data["networks"].items()
        },
        platform=data["platform"],
        toolchain=data.get("toolchain"),
        concurrent=data["concurrent"],
        export=read_export(data),
        files=chain.files,
    )


def rebase_names(document: Document, folder: Path) -> Document:
    """Return a document in which the paths of all files start at ``folder``."""

    def rebase(pointer: Pointer, value: Any) -> Any:
        start = Path(document.positions[pointer].file).parent
        if start == folder or not isinstance(value, str):
            return value
        return ":".join(rebase_name(file, start, folder) for file in value.split(":"))

    data = dict(document.data)
    for key in {"platform", "toolchain"} & data.keys():
        data[key] = rebase((key,), data[key])
    if isinstance(data.get("networks"), dict):
        data["networks"] = {k: rebase(("networks", k), v) for k, v in data["networks"].items()}
    return replace(document, data=data)


def find_rule_errors(data: Mapping[str, Any], path: Path, catalogue: Catalog) -> Iterator[Finding]:
    """Yield the errors that the schema cannot find. Values of the wrong type are skipped."""
    schema = load_schema()["properties"]["c_prefix"]
    name = data.get("name", path.stem)
    networks = data.get("networks")
    networks = networks if isinstance(networks, dict) else {}
    for prefix, file in networks.items():
        pointer = ("networks", prefix)
        for error in find_errors(prefix, schema):
            yield Finding(pointer, error.message, key=True)
        if isinstance(name, str) and prefix.upper() == c_identifier(name).upper():
            message = f"{quote(prefix)} is also the name of the firmware; choose another name"
            yield Finding(pointer, message, key=True)
        alike = [each for each in networks if each != prefix and each.upper() == prefix.upper()]
        if alike:
            message = (
                f"{quote(prefix)} and {quote(alike[0])} have equal macros; choose another name"
            )
            yield Finding(pointer, message, key=True)
        if not isinstance(file, str):
            continue
        recipe = parse_layers(file, path.parent)
        missing = [each for each in recipe.files if not each.is_file()]
        if missing:
            yield Finding(
                pointer,
                f"no such file: {missing[0]}; a relative path starts at the recipe's folder",
            )
            continue
        with suppress(DiagnosticError):  # the recipe's loader reports the error
            if names_networks(recipe):
                yield Finding(
                    pointer, f"{recipe} is a recipe of several networks; list its networks instead"
                )
    yield from find_joint_export_errors(data.get("export"), c_identifier(str(name)))
    named = {key: data[key] for key in ("platform", "toolchain") if key in data}
    if not is_custom_file(str(named.get("platform", ""))):
        yield from find_name_errors(named, catalogue)


def rebase_name(value: str, start: Path, folder: Path) -> str:
    return os.path.relpath(start / value, folder) if is_custom_file(value) else value
