"""Reads the names of a network's classes."""

from __future__ import annotations

from firmwright.data.fetch import fetch_file
from firmwright.data.sample_sources import DataFolders
from firmwright.errors import UserError, explain_failure
from firmwright.recipe.postprocess import Classes


def read_class_names(classes: Classes, folders: DataFolders) -> tuple[str, ...]:
    """Return a name for every class: from the recipe, from its file, or ``class 0`` and so on.

    Raises UserError if the file cannot be read or has no names.
    """
    if classes.names is not None:
        return classes.names
    if classes.count is not None:
        return tuple(f"class {i}" for i in range(classes.count))
    assert classes.file is not None
    if classes.file.path is None:
        path, shown = fetch_file(classes.file, folders.cache), classes.file.display_name
    else:
        path = folders.folder / classes.file.path
        shown = str(path)
    try:
        with explain_failure(f"{shown}: cannot be read"):
            text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{shown}: not UTF-8 text; save it as UTF-8") from None
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not names:
        raise UserError(f"{shown}: no class names; expected one per line")
    return names
