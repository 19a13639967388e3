"""Stores valid recipes by content, so that an up-to-date build does not validate recipes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from firmwright.checked_file import read_checked, write_checked
from firmwright.documents.chain import Layers
from firmwright.recipe.recipe import Recipe, read_recipe


def make_cache_key(decisive: Any) -> str:
    """Return a digest of all inputs of a checked recipe except the recipe's files."""
    plain = msgspec.to_builtins(decisive)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()


def read_cache(folder: Path, key: str, layers: Layers) -> Recipe | None:
    """Return the recipe stored under ``key``.

    Returns None if it is missing or damaged, or if one of the recipe's files has changed.
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
    """Store a recipe under ``key``."""
    files = {str(file): digest for file, digest in recipe.chain.items()}
    known = {"files": files, "data": recipe.data}
    write_checked(folder / f"{key}.json", json.dumps(known).encode("ascii"))


def digest_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
