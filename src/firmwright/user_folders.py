"""The folders of the user that firmwright runs as; a container's user may have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path, user_config_path


def find_cache_folder() -> Path | None:
    """Return the folder of the user's cached files, None for a user without a home."""
    return _find(user_cache_path)


def find_config_folder() -> Path | None:
    """Return the folder of the user's configuration, None for a user without a home."""
    return _find(user_config_path)


def _find(folder: Callable[[str], Path]) -> Path | None:
    try:
        found = folder("firmwright")
    except RuntimeError:
        return None
    return found if found.is_absolute() else None  # older versions return "~/.cache"
