"""Packages import only lower layers, and imports have no cycles."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import TopologicalSorter

import pytest

from tests.quality.layers import (
    LAYERS,
    Graph,
    find_folder,
    find_package,
    find_wrong_arrows,
    group,
    read_imports,
)


@pytest.fixture(scope="module")
def imports() -> Graph:
    """Return the imports of each module; reading them needs seconds."""
    return read_imports()


@pytest.fixture(scope="module")
def packages(imports: Graph) -> Graph:
    return group(imports)


def test_every_package_has_a_layer(packages: Graph) -> None:
    named = [package for layer in LAYERS for package in layer]
    assert sorted(named) == sorted(packages)


def test_no_import_goes_up(packages: Graph) -> None:
    upward = find_wrong_arrows(packages)
    print(*("  ".join(layer) for layer in LAYERS), f"upward imports: {len(upward)}", sep="\n")
    assert upward == []


@pytest.mark.parametrize("find_group", [find_package, find_folder, str])
def test_no_circle(imports: Graph, find_group: Callable[[str], str]) -> None:
    TopologicalSorter(group(imports, find_group)).prepare()
