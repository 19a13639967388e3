"""Packages import only lower layers, and the picture of them is fresh."""

from __future__ import annotations

from graphlib import TopologicalSorter

from tests.quality.layers import LAYERS, find_folder, find_wrong_arrows, group, read_imports
from tests.quality.picture import PICTURE, draw

IMPORTS = read_imports()
PACKAGES = group(IMPORTS)


def test_every_package_has_a_layer() -> None:
    named = [package for layer in LAYERS for package in layer]
    assert sorted(named) == sorted(PACKAGES)


def test_no_import_goes_up() -> None:
    print(*("  ".join(layer) for layer in LAYERS), sep="\n")
    assert find_wrong_arrows(PACKAGES) == []


def test_no_cycle_of_folders() -> None:
    TopologicalSorter(group(IMPORTS, find_folder)).prepare()


def test_picture_is_fresh() -> None:
    is_fresh = PICTURE.read_text(encoding="utf-8") == draw(PACKAGES)
    assert is_fresh, "architecture.svg is stale; `python -m nox -s refresh` writes it"
