"""Finds the folders of the user that runs firmwright. In a container the folders may be missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path, user_config_path


def find_cache_folder() -> Path | None:
    """Return the folder of the user's cached files, or None if the user has no home."""
    return _find(user_cache_path)


def find_config_folder() -> Path | None:
    """Return the folder of the user's configuration, or None if the user has no home."""
    return _find(user_config_path)


def _find(folder: Callable[[str], Path]) -> Path | None:
    try:
        path = folder("firmwright")
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older versions return "~/.cache"
