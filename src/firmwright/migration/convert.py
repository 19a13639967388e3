"""Converts the values of foreign settings to values of a recipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from firmwright.migration.c_arrays import EmbeddedModel
from firmwright.migration.source import Setting, Source
from firmwright.recipe.catalog import Catalog

Converter = Callable[[Setting, Source, Catalog], Any]
"""Returns the recipe's value, or None without a counterpart."""


def convert_path(setting: Setting, source: Source, _catalog: Catalog) -> str | None:
    """Return the path of a file from the current folder, in which the recipe will be."""
    if isinstance(setting.value, EmbeddedModel):
        return str(setting.value)
    if not isinstance(setting.value, str) or not setting.value:
        return None
    return (source.folder / setting.value).as_posix()


def convert_platform(setting: Setting, _source: Source, catalog: Catalog) -> str | None:
    names = (str(setting.value), str(setting.value).upper(), str(setting.value).lower())
    known = (catalog.resolve_platform(name) for name in names)
    return next((name for name in known if name in catalog.platforms), None)


def convert_batch(setting: Setting, _source: Source, _catalog: Catalog) -> int | None:
    """Return a batch above 1. TI's 0 is the batch of the model, and 1 is the default."""
    text = str(setting.value)
    return int(text) if re.fullmatch(r"\d{1,6}", text) and int(text) > 1 else None


def convert_flags(setting: Setting, _source: Source, _catalog: Catalog) -> list[str] | None:
    """Return the flags of a C compiler. Each variable of the tool ends the conversion."""
    try:
        flags = shlex.split(str(setting.value))
    except ValueError:
        return None
    return flags if flags and all(re.fullmatch(r"-[^$`]+", flag) for flag in flags) else None


def convert_shapes(
    setting: Setting, _source: Source, _catalog: Catalog
) -> Mapping[str, Any] | None:
    """Return the shapes of inputs by their names, for a key with a star."""
    value = setting.value
    if not isinstance(value, Mapping) or not all(isinstance(each, list) for each in value.values()):
        return None
    return {name: [*shape] for name, shape in value.items()}


def convert_dimension(
    setting: Setting, _source: Source, _catalog: Catalog
) -> Mapping[str, int] | None:
    """Return the length of a dimension by its name: ``batch:1``."""
    name, _, length = str(setting.value).rpartition(":")
    return {name: int(length)} if name and re.fullmatch(r"\d{1,9}", length) else None


def convert_deeploy(setting: Setting, source: Source, _catalog: Catalog) -> str | None:
    """Return the network in a folder of Deeploy's tests."""
    if not isinstance(setting.value, str):
        return None
    return (source.folder / setting.value / "network.onnx").as_posix()


def convert_tvm_names(setting: Setting, _source: Source, _catalog: Catalog) -> str:
    """Return the prefix of TVM's C names of a module: ``tvmgen_keywords_run``."""
    return f"tvmgen_{setting.value}"


CONVERTERS: Mapping[str, Converter] = {
    "path": convert_path,
    "platform": convert_platform,
    "batch": convert_batch,
    "flags": convert_flags,
    "shapes": convert_shapes,
    "dimension": convert_dimension,
    "deeploy": convert_deeploy,
    "tvm_names": convert_tvm_names,
}
"""The functions that rules name."""
