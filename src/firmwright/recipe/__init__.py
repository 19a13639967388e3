"""Reads, checks and completes recipes, which users write in YAML."""

from __future__ import annotations

from firmwright.recipe.catalog import Catalog, KnownDevice, KnownPlatform
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.model_source import ModelSource
from firmwright.recipe.recipe import (
    BatchRequest,
    DemoOptions,
    ExportOptions,
    InputOptions,
    Library,
    Recipe,
    RunOptions,
    Tolerance,
    TransformOptions,
)
from firmwright.recipe.target import parse_target
from firmwright.targets import DeviceSpec

__all__ = [
    "BatchRequest",
    "Catalog",
    "DemoOptions",
    "DeviceSpec",
    "ExportOptions",
    "InputOptions",
    "KnownDevice",
    "KnownPlatform",
    "Library",
    "ModelSource",
    "Recipe",
    "RunOptions",
    "Tolerance",
    "TransformOptions",
    "load_recipe",
    "parse_target",
]
