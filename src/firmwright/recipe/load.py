"""From a recipe file to a Recipe, with every mistake in it reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firmwright import __version__
from firmwright.documents.document import Document, check_document, read_bytes
from firmwright.documents.schema_check import Finding
from firmwright.errors import Diagnostic, DiagnosticError
from firmwright.recipe.cache import make_cache_key, read_cache, write_cache
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.checks import find_rule_errors
from firmwright.recipe.defaults import complete_data
from firmwright.recipe.files import find_missing_files
from firmwright.recipe.overrides import apply_overrides, find_override
from firmwright.recipe.recipe import Recipe, read_recipe
from firmwright.recipe.schema import load_schema


def load_recipe(
    path: Path,
    overrides: Mapping[str, str],
    catalogue: Catalog,
    cache: Path | None = None,
) -> Recipe:
    """Read, check and complete a recipe.

    ``overrides`` are texts that replace values of the file, by the names of ``list_overrides``.
    ``cache`` is a folder that keeps valid recipes, by content. Raises DiagnosticError with all
    errors: in YAML, schema, names and rules, and missing files.
    """
    content = read_bytes(path, str(path))
    decisive = (__version__, load_schema(), path.stem, content.hex(), overrides, catalogue.decisive)
    key = make_cache_key(decisive)
    if cache:
        known = read_cache(cache, key, path)
        # The options of a custom device may have changed without the recipe.
        if known and not known.devices and not any(find_missing_files(known.data, path.parent)):
            return known
    recipe = _check_recipe(path, content, overrides, catalogue)
    if cache:
        write_cache(cache, key, recipe)
    return recipe


def _check_recipe(
    path: Path, content: bytes, overrides: Mapping[str, str], catalogue: Catalog
) -> Recipe:
    document, found = check_document(content, load_schema(), str(path))
    data = document.data
    found += apply_overrides(data, overrides)
    reported = {(d.path, d.line, d.column) for d in found}
    for finding in find_rule_errors(data, path, catalogue):
        diagnostic = _to_diagnostic(finding, document, overrides)
        if (diagnostic.path, diagnostic.line, diagnostic.column) not in reported:
            found.append(diagnostic)
    if found:
        raise DiagnosticError(found)
    return read_recipe(path, complete_data(data, path, catalogue))


def _to_diagnostic(
    finding: Finding, document: Document, overrides: Mapping[str, str]
) -> Diagnostic:
    override = find_override(finding.pointer, overrides)
    if override is not None:
        return Diagnostic(override, 0, 0, finding.message)
    return document.make_diagnostic(finding.pointer, finding.message, finding.key)
