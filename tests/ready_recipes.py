"""Reads the built-in recipes, with their bases resolved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from firmwright.documents.chain import Layers, read_chain
from firmwright.recipe.moved_paths import move_document

FOLDER = Path(__file__).parents[1] / "recipes"


def read_ready(name: str) -> dict[str, Any]:
    """Return the data of a recipe merged with its bases; the caller may change it."""
    document, _ = move_document(read_chain(Layers(FOLDER / f"{name}.yaml")).document)
    return copy.deepcopy(document.data)
