"""The recipes that come with firmwright, resolved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from firmwright.documents.chain import Layers, read_chain
from firmwright.recipe.moved_paths import move_document

FOLDER = Path(__file__).parents[1] / "recipes"


def read_ready(name: str) -> dict[str, Any]:
    """Return the data of a recipe with that of its bases, to be changed."""
    document, _ = move_document(read_chain(Layers(FOLDER / f"{name}.yaml")).document)
    return copy.deepcopy(document.data)
