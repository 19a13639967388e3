"""Loads the families of architectures, and the possible features of each architecture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from firmwright.toolchain.descriptions import read_builtin_yaml

Features = tuple[str, ...]


@cache
def load_families() -> Mapping[str, Mapping[str, Features]]:
    """Return the architectures of every family, and the possible features of each architecture."""
    text = files("firmwright.toolchain").joinpath("families.yaml").read_text(encoding="utf-8")
    return {
        family: {name: tuple(features) for name, features in members.items()}
        for family, members in read_builtin_yaml(text).items()
    }


def find_family(architecture: str) -> str | None:
    """Return the family of an architecture, or None if only a custom toolchain supports it."""
    families = load_families().items()
    return next((family for family, members in families if architecture in members), None)


def find_features(architecture: str) -> Features | None:
    """Return the features that an architecture can have, or None if they are unknown."""
    family = find_family(architecture)
    return load_families()[family][architecture] if family else None
