"""Valid recipes by content, so that a build with nothing to do validates nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from firmwright.recipe.recipe import Recipe, read_recipe


def make_cache_key(decisive: Any) -> str:
    """Return a digest of everything that a checked recipe depends on."""
    plain = msgspec.to_builtins(decisive)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("ascii")).hexdigest()


def read_cache(folder: Path, key: str, path: Path) -> Recipe | None:
    """Return the recipe stored under ``key``, or None if it is missing or damaged."""
    try:
        digest, _, body = (folder / f"{key}.json").read_bytes().partition(b"\n")
        if digest.decode("ascii") != hashlib.sha256(body).hexdigest():
            return None
        return read_recipe(path, json.loads(body))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        return None


def write_cache(folder: Path, key: str, recipe: Recipe) -> None:
    """Store a recipe: whole or not at all. A folder that cannot be written costs only time."""
    body = json.dumps(recipe.data, sort_keys=True).encode("ascii")
    content = hashlib.sha256(body).hexdigest().encode("ascii") + b"\n" + body
    unfinished = folder / f".{key}.{os.getpid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(content)
            unfinished.replace(folder / f"{key}.json")
        finally:
            unfinished.unlink(missing_ok=True)
