"""Finds the parts of a recipe that run code on this machine before the code runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmwright.documents.chain import Layers
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic
from firmwright.models.formats import FORMATS
from firmwright.recipe.defaults import complete_model
from firmwright.recipe.user_files import find_references, is_description_file

COMPILED = {
    "cflags": "flags can make a compiler run programs",
    "libraries": "the C of a recipe is compiled, and runs on this machine for the platform `host`",
}
"""Keys that make a recipe run code other than Python code."""


@dataclass(frozen=True)
class CustomCode:
    """Code of a recipe: a sentence at a location, and the name of Python code, or None."""

    location: Diagnostic
    python: str | None


def find_custom_code(source: Path | Layers) -> list[CustomCode]:
    """Return the code of a recipe.

    For an invalid recipe, the function returns the code that it can find. Raises DiagnosticError if
    a file is not a mapping in YAML.
    """
    layers = source if isinstance(source, Layers) else Layers(source)
    document = layers.chain.document
    items = [*find_functions(document.data), *find_programs(document.data)]
    return [
        CustomCode(document.make_diagnostic(pointer, sentence), python)
        for pointer, sentence, python in items
    ]


def find_functions(data: Any) -> Iterator[tuple[Pointer, str, str | None]]:
    """Yield the code that Python runs: functions, and models whose format contains code."""
    for reference in find_references(data):
        if reference.format.is_function and isinstance(reference.value, str):
            yield reference.pointer, "a Python function", reference.value
    model = data.get("model")
    source = complete_model(model) if isinstance(model, str | dict) else {}
    form = FORMATS.get(str(source.get("format")))
    if form and form.holds_code:
        yield ("model",), f"a model of the format '{form.name}' contains code", "the model"


def find_programs(data: Any) -> Iterator[tuple[Pointer, str, str | None]]:
    """Yield keys that run other code: custom platforms and toolchains, boards, flags, C code."""
    for key in ("platform", "toolchain"):
        if isinstance(data.get(key), str) and is_description_file(data[key]):
            yield (key,), "a description names programs and templates that run", None
    run = data.get("run")
    if isinstance(run, dict) and run.get("board"):
        yield ("run", "board"), "a board's file names programs that flash and reset it", None
    for key, sentence in COMPILED.items():
        if data.get(key):
            yield (key,), sentence, None
