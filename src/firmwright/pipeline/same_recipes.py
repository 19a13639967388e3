"""Checks whether recipes are equal although a file has changed.

Stages do not read the text of a recipe, such as comments. Therefore a change of recipe files is
ignored if the combined recipes are equal. A change of recipe folders is ignored if the file names
are equal.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from firmwright.documents.chain import Layers

from .freshness import Identity, file_digest, read_identity


class RecipeText(msgspec.Struct):
    """A recipe: the files and values that the user named, and the digest of the recipe's data.

    ``paths`` contains all files of the recipe, and the folders of the files.
    """

    path: str
    overlays: list[str]
    overrides: dict[str, str]
    paths: list[str]
    digest: str


class Loose(msgspec.Struct):
    """A file or folder of recipes, its identity, and a digest of the content or the names."""

    identity: list[int]
    digest: str


def make_text(layers: Layers, files: Iterable[Path]) -> RecipeText:
    named = [str(file) for file in files]
    return RecipeText(
        str(layers.path),
        [*map(str, layers.overlays)],
        dict(layers.overrides),
        list(dict.fromkeys([*named, *(str(Path(file).parent) for file in named)])),
        digest_text(layers),
    )


def read_loose(texts: Iterable[RecipeText]) -> dict[str, Loose]:
    paths = dict.fromkeys(path for text in texts for path in text.paths)
    return {path: Loose(read_identity(path), digest_entry(path)) for path in paths}


def find_changed(
    known_paths: Mapping[str, Loose], identities: Mapping[str, Identity]
) -> frozenset[str]:
    """Return the files with different contents and the folders with different names.

    ``identities`` contains the identities of all files.
    """
    other = [path for path, known in known_paths.items() if known.identity != [*identities[path]]]
    return frozenset(path for path in other if digest_entry(path) != known_paths[path].digest)


def is_same(text: RecipeText, changed: frozenset[str]) -> bool:
    """Return whether a recipe is equal although the files and folders in ``changed`` differ."""
    changed_paths = changed.intersection(text.paths)
    if any(os.path.isdir(path) for path in changed_paths):  # noqa: PTH112 (on the fast path)
        return False
    return not changed_paths or digest_text(to_layers(text)) == text.digest


def to_layers(text: RecipeText) -> Layers:
    return Layers(Path(text.path), tuple(map(Path, text.overlays)), text.overrides)


def digest_entry(path: str) -> str:
    """Return the digest of a file's content or of the names in a folder.

    The digest is '' if the entry is missing.
    """
    try:
        if os.path.isdir(path):  # noqa: PTH112 (on the fast path)
            names = "\0".join(sorted(os.listdir(path)))  # noqa: PTH208
            return hashlib.sha256(os.fsencode(names)).hexdigest()
        return file_digest(path)
    except OSError:
        return ""


def digest_text(layers: Layers) -> str:
    """Return the digest of a recipe's data, or '' if the recipe has errors."""
    # The import is late, because most snapshots are valid without this check.
    from firmwright.documents.chain import read_chain
    from firmwright.errors import UserError
    from firmwright.recipe.moved_paths import move_document

    try:
        chain = read_chain(layers)
    except UserError:
        return ""
    document, far = move_document(chain.document)
    if chain.findings or far:
        return ""
    text = json.dumps(document.data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
