"""Reads the user's settings of the shared cache, from the environment or from a file."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path

from firmwright.errors import UserError
from firmwright.user_folders import find_config_folder

ADDRESS = "FIRMWRIGHT_CACHE"
"""A folder, or an address such as ``http://…`` or ``s3://…``."""
ROLE = "FIRMWRIGHT_CACHE_ROLE"
"""``both`` (the default), ``read`` (only use results) or ``write`` (only store results)."""
LIMIT = "FIRMWRIGHT_CACHE_SIZE"
"""The maximum size of a folder, as in ``10 GiB``."""

KEYS = {"cache": ADDRESS, "cache_role": ROLE, "cache_size": LIMIT}
"""The keys of the file, and the corresponding variables."""


def read_settings() -> dict[str, str]:
    """Map the names of the variables to the settings.

    The file is read only if no variable names a cache. Raises DiagnosticError if the file is
    invalid.
    """
    said = {name: os.environ[name] for name in KEYS.values() if name in os.environ}
    file = find_file()
    return said if ADDRESS in said or file is None else {**read_file(file), **said}


def find_file() -> Path | None:
    """Return the path of a user's file, or None if the user has no home."""
    folder = find_config_folder()
    return folder / "config.yaml" if folder else None


def read_file(path: Path) -> dict[str, str]:
    """Return the settings of a user's file, or {} if there is no file.

    Raises UserError if the file cannot be read.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        hint = f"make the file readable, or set {ADDRESS}"
        raise UserError(f"{path}: {error.strerror}; {hint}") from None
    # Imported late, because most users have no such file.
    from firmwright.documents.document import load_document

    schema = files("firmwright.shared_cache").joinpath("config.schema.json").read_text("utf-8")
    data = load_document(path, json.loads(schema)).data
    said = {KEYS[key]: str(value) for key, value in data.items()}
    if "://" not in said[ADDRESS]:  # a folder, relative to the file's folder
        said[ADDRESS] = str(path.parent / Path(said[ADDRESS]).expanduser())
    return said
