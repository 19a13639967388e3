"""Converts each value of a recipe to one spelling, which is the form in a ``Recipe``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from firmwright.data.sample_sources import KINDS
from firmwright.documents.quantities import (
    parse_energy,
    parse_frequency,
    parse_size,
    parse_time,
)
from firmwright.documents.schema_check import Schema
from firmwright.documents.yaml_text import Pointer
from firmwright.recipe.schema import rewrite_data
from firmwright.recipe.target import read_target


def normalize_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return valid data in the spelling of the types of a recipe."""
    normal: dict[str, Any] = rewrite_data(data, _normalize)
    postprocess: dict[str, Any] = normal.pop("postprocess", {})
    return normal | postprocess


def _normalize(_: Pointer, value: Any, schema: Schema) -> Any:
    if value is None:
        return None
    if schema.get("uniqueItems"):
        value = sorted(value)
    if schema.get("format") in _SPELLINGS:
        value = _SPELLINGS[schema["format"]](value)
    return _expand(schema["shortFor"], value) if "shortFor" in schema else value


def _expand(long_form: Any, value: Any) -> Any:
    """Return the long form with the value at the position of ``$``."""
    if isinstance(long_form, dict):
        return {key: _expand(part, value) for key, part in long_form.items()}
    if isinstance(long_form, list):
        return [_expand(part, value) for part in long_form]
    return value


def _normalize_source(stated: Mapping[str, Any]) -> dict[str, Any]:
    kind = next(kind for kind in KINDS if kind in stated)
    if kind == "python":
        return {"kind": kind, "function": stated[kind]}
    preprocess = stated.get("preprocess", {}) if kind == "pictures" else None
    return {"kind": kind, "files": stated[kind], "preprocess": preprocess}


def _normalize_target(stated: Any) -> Any:
    return msgspec.to_builtins([device for _, device in read_target(stated)[0]])


_SPELLINGS: Mapping[str, Callable[[Any], Any]] = {
    "count": int,
    "energy": parse_energy,
    "frequency": parse_frequency,
    "points": lambda text: float(text.split("point")[0]),
    "percentage": lambda text: float(text.removesuffix("%")),
    "sha256": str.lower,
    "size": parse_size,
    "source": _normalize_source,
    "target": _normalize_target,
    "time": parse_time,
}
"""A mapping from formats to functions that convert a written value to the form in a ``Recipe``."""
