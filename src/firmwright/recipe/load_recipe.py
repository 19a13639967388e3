"""Converts the files of a recipe to a Recipe, or reads the Recipe from a cache."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from firmwright import __version__
from firmwright.checked_file import read_checked, write_checked
from firmwright.documents.chain import Layers
from firmwright.documents.document import complete_document
from firmwright.errors import DiagnosticError
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.defaults import complete_data
from firmwright.recipe.key_rules import find_rule_errors
from firmwright.recipe.moved_paths import move_document
from firmwright.recipe.overrides import complete_key
from firmwright.recipe.recipe import Recipe, read_recipe
from firmwright.recipe.schema import digest_schema, load_schema
from firmwright.recipe.user_files import find_missing_files


def load_recipe(
    source: Path | Layers,
    overrides: Mapping[str, str],
    catalogue: Catalog,
    cache: Path | None = None,
) -> Recipe:
    """Read, check and complete a recipe.

    ``overrides`` maps keys to values of the command line, which are YAML texts. Paths in these
    values start at the recipe's folder. ``cache`` is a folder that stores valid recipes by content.
    Raises DiagnosticError with all errors in YAML, schema, names and rules, and with all missing
    files.
    """
    layers = make_layers(source, overrides)
    given = (str(layers), layers.overrides)
    decisive = (__version__, digest_schema(), *given, sys.path, catalogue.decisive)
    key = make_cache_key(decisive)
    if cache:
        known = read_cache(cache, key, layers)
        # The options of a custom device may change without a change of the recipe.
        if (
            known
            and not known.devices
            and not any(find_missing_files(known.references, layers.folder))
        ):
            return known
    recipe = _check_recipe(layers, catalogue)
    if cache:
        write_cache(cache, key, recipe)
    return recipe


def make_layers(source: Path | Layers, overrides: Mapping[str, str]) -> Layers:
    """Return the files of a recipe, and the values of the command line for the keys of recipes."""
    layers = source if isinstance(source, Layers) else Layers(source)
    completed = {complete_key(key): text for key, text in overrides.items()}
    return layers if completed == layers.overrides else replace(layers, overrides=completed)


def _check_recipe(layers: Layers, catalogue: Catalog) -> Recipe:
    chain = layers.chain
    document, far = move_document(chain.document)
    document, diagnostics = complete_document(document, load_schema(), chain.findings)
    data, path = document.data, layers.path
    reported = {(d.path, d.line, d.column) for d in diagnostics}
    for finding in (*far, *find_rule_errors(data, path, catalogue)):
        diagnostic = document.make_diagnostic(finding.pointer, finding.message, finding.key)
        if (diagnostic.path, diagnostic.line, diagnostic.column) not in reported:
            diagnostics.append(diagnostic)
    if diagnostics:
        raise DiagnosticError(diagnostics)
    recipe = read_recipe(path, complete_data(data, path, catalogue))
    return replace(recipe, layers=layers, chain=chain.files)


def make_cache_key(decisive: Any) -> str:
    """Return a digest of all inputs of a checked recipe except the recipe's files."""
    plain = msgspec.to_builtins(decisive)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()


def read_cache(folder: Path, key: str, layers: Layers) -> Recipe | None:
    """Return the recipe that is stored under ``key``, or None if it is missing or damaged.

    The result is also None if one of the recipe's files has changed.
    """
    content = read_checked(folder / f"{key}.json")
    if content is None:
        return None
    try:
        known = json.loads(content)
        chain = {Path(file): digest for file, digest in known["files"].items()}
        if any(digest_file(file) != digest for file, digest in chain.items()):
            return None
        return replace(read_recipe(layers.path, known["data"]), layers=layers, chain=chain)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        return None


def write_cache(folder: Path, key: str, recipe: Recipe) -> None:
    files = {str(file): digest for file, digest in recipe.chain.items()}
    known = {"files": files, "data": recipe.data}
    write_checked(folder / f"{key}.json", json.dumps(known).encode("ascii"))


def digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
