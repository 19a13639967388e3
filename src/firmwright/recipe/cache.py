"""Valid recipes by content, so that a build with nothing to do validates nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from firmwright.checked_file import read_checked, write_checked
from firmwright.recipe.recipe import Recipe, read_recipe


def make_cache_key(decisive: Any) -> str:
    """Return a digest of everything that a checked recipe depends on."""
    plain = msgspec.to_builtins(decisive)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()


def read_cache(folder: Path, key: str, path: Path) -> Recipe | None:
    """Return the recipe stored under ``key``, or None if it is missing or damaged."""
    content = read_checked(folder / f"{key}.json")
    if content is None:
        return None
    try:
        return read_recipe(path, json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        return None


def write_cache(folder: Path, key: str, recipe: Recipe) -> None:
    """Store a recipe under ``key``."""
    content = json.dumps(recipe.data, sort_keys=True).encode("ascii")
    write_checked(folder / f"{key}.json", content)
