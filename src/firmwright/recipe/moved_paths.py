"""Converts the paths in other files of a recipe to paths from the recipe's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from firmwright.data.sample_sources import module_file
from firmwright.documents.document import Document
from firmwright.documents.schema_check import Finding, Schema, quote
from firmwright.documents.stated_values import COMMAND_LINE, parse_key, read_values
from firmwright.documents.yaml_text import Pointer
from firmwright.recipe.schema import rewrite_data
from firmwright.recipe.user_files import FILE_FORMATS, find_references, is_description_file


def move_document(document: Document) -> tuple[Document, list[Finding]]:
    """Return a document with all paths from its folder, and functions that cannot be moved."""
    home = Path(document.path).parent

    def find_folder(pointer: Pointer) -> Path:
        while pointer not in document.positions:
            pointer = pointer[:-1]
        file = document.positions[pointer].file
        return home if file == COMMAND_LINE else Path(file).parent

    folders = {find_folder(pointer) for pointer in document.positions}
    if folders == {home}:
        return document, []
    findings = list(find_far_functions(document.data, find_folder, home))
    return replace(document, data=move_paths(document.data, find_folder, home)), findings


def find_far_functions(
    data: Any, find_folder: Callable[[Pointer], Path], home: Path
) -> Iterator[Finding]:
    """Yield functions whose module is in the folder of a base, not in the recipe's folder."""
    for reference in find_references(data):
        folder, value = find_folder(reference.pointer), reference.value
        if reference.format.is_function and isinstance(value, str) and folder != home:
            module = module_file(value, folder)
            if module.is_file() and not module_file(value, home).is_file():
                message = f"the module is {quote(str(module))}; expected it in the recipe's folder"
                yield Finding(reference.pointer, f"{message}: move the module, or name another")


def rebase_argument(key: str, text: str, start: Path, home: Path) -> str:
    """Return a value of the command line with paths from ``home`` instead of ``start``."""
    document, diagnostics = read_values({key: text})
    moved = move_paths(document.data, lambda _: start, home)
    if diagnostics or moved == document.data:
        return text  # the reader of the recipe reports the errors
    value: Any = moved
    for part in parse_key(key):
        value = value[part]
    return json.dumps(value)


def move_paths(data: Any, find_folder: Callable[[Pointer], Path], home: Path) -> Any:
    """Return a recipe's data with paths that start at ``home``.

    ``find_folder`` returns the folder at which the paths of a value start.
    """

    def visit(pointer: Pointer, value: Any, schema: Schema) -> Any:
        form = schema.get("format", "")
        if form == "package-files" and isinstance(value, dict) and "package" not in value:
            path = value.get("path")
            return {**value, "path": move(path, pointer)} if isinstance(path, str) else value
        is_path = form in FILE_FORMATS and FILE_FORMATS[form].is_path and isinstance(value, str)
        if not is_path or (form == "description" and not is_description_file(value)):
            return value
        return move(value, pointer)

    def move(path: str, pointer: Pointer) -> str:
        folder = find_folder(pointer)
        if folder == home or Path(path).is_absolute():
            return path
        if folder.is_absolute() and not home.is_absolute():  # a folder of an installed package
            return str(folder / path)
        return os.path.relpath(folder / path, home)

    return rewrite_data(data, visit)
