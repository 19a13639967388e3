"""Checks whether recipes are equal although their files have changed, such as by a comment.

Stages do not read the text of a recipe. So a change of recipe files is ignored if the
combined recipes are equal. A change of recipe folders is ignored if their file names are
equal.
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
    """A recipe: the files and values that the user named, all of its files, and its digest."""

    path: str
    overlays: list[str]
    overrides: dict[str, str]
    files: list[str]
    digest: str


class Loose(msgspec.Struct):
    """A file or folder of recipes: its identity, and the digest of its content or its names."""

    identity: list[int]
    digest: str


class RecipeTexts(msgspec.Struct):
    """The recipes of a snapshot, with their files and folders by path."""

    recipes: list[RecipeText]
    places: dict[str, Loose]

    def hold(self, found: Mapping[str, Identity]) -> bool:
        """Return whether the recipes are equal; ``found`` has the identities of all files."""
        other = [path for path, known in self.places.items() if known.identity != [*found[path]]]
        changed = {path for path in other if digest_place(path) != self.places[path].digest}
        if any(os.path.isdir(path) for path in changed):  # noqa: PTH112 (on the fast path)
            return False
        concerned = (each for each in self.recipes if not changed.isdisjoint(each.files))
        return all(digest_text(to_layers(each)) == each.digest for each in concerned)


def collect_texts(found: Iterable[tuple[Layers, Iterable[Path]]]) -> RecipeTexts:
    """Return the texts of recipes from the layers and files of each recipe."""
    recipes: dict[str, RecipeText] = {}
    places: dict[str, Loose] = {}
    for layers, files in found:
        overlays, overrides = [*map(str, layers.overlays)], dict(layers.overrides)
        named = [str(file) for file in files]
        text = RecipeText(str(layers.path), overlays, overrides, named, digest_text(layers))
        recipes[json.dumps([text.path, overlays, overrides])] = text
        for path in (*named, *(str(Path(file).parent) for file in named)):
            places.setdefault(path, Loose(read_identity(path), digest_place(path)))
    return RecipeTexts(list(recipes.values()), places)


def to_layers(text: RecipeText) -> Layers:
    return Layers(Path(text.path), tuple(map(Path, text.overlays)), text.overrides)


def digest_place(path: str) -> str:
    """Return the digest of a file's content or of the names in a folder; empty if missing."""
    try:
        if os.path.isdir(path):  # noqa: PTH112 (on the fast path)
            names = "\0".join(sorted(os.listdir(path)))  # noqa: PTH208
            return hashlib.sha256(os.fsencode(names)).hexdigest()
        return file_digest(path)
    except OSError:
        return ""


def digest_text(layers: Layers) -> str:
    """Return the digest of a recipe's data; empty if the recipe has errors."""
    # Imported late: most snapshots are valid without it.
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
