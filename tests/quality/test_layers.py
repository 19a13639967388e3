"""Packages import only lower layers, imports have no cycles, and the picture is up to date."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from tests.quality.layers import LAYERS, Graph, find_folder, find_wrong_arrows, group, read_imports
from tests.quality.picture import PICTURE, draw

IMPORTS = read_imports()
PACKAGES = group(IMPORTS)


def test_every_package_has_a_layer() -> None:
    named = [package for layer in LAYERS for package in layer]
    assert sorted(named) == sorted(PACKAGES)


def test_no_import_goes_up() -> None:
    upward = find_wrong_arrows(PACKAGES)
    print(*("  ".join(layer) for layer in LAYERS), f"upward imports: {len(upward)}", sep="\n")
    assert upward == []


@pytest.mark.parametrize(
    "graph", [PACKAGES, group(IMPORTS, find_folder), IMPORTS], ids=["packages", "folders", "files"]
)
def test_no_circle(graph: Graph) -> None:
    TopologicalSorter(graph).prepare()


def test_picture_is_fresh() -> None:
    is_fresh = PICTURE.read_text(encoding="utf-8") == draw(PACKAGES)
    assert is_fresh, "architecture.svg is stale; `python -m nox -s refresh` writes it"
