"""Valid recipes in the cache that builds share: another folder checks none of them anew."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from firmwright.recipe.cache import name_file
from firmwright.shared_cache.entry import CacheError


class SharedRecipes:
    """The shared cache, if the user names one, beside a folder's own recipes.

    Where it fails, that is told, and the recipe is checked.
    """

    def fetch(self, key: str, folder: Path) -> None:
        """Put the recipe of a key into a folder, if there is one; its digest is in it."""
        # Imported late: a recipe is looked for here once.
        from .stage_cache import load_cache

        shared = load_cache()
        if shared is not None:
            folder.mkdir(parents=True, exist_ok=True)
            tell_failure(lambda: shared.restore(key, folder), "the recipe was checked instead")

    def keep(self, key: str, folder: Path) -> None:
        """Keep the recipe that a folder has under a key."""
        from .stage_cache import load_cache

        shared, file = load_cache(), folder / name_file(key)
        if shared is not None and file.exists():
            with TemporaryDirectory() as alone:
                shutil.copy(file, alone)
                tell_failure(lambda: shared.keep(key, Path(alone), ()), "the recipe was not kept")


def tell_failure(do: Callable[[], object], consequence: str) -> None:
    try:
        do()
    except CacheError as error:
        print(f"shared cache: {error}; {consequence}", file=sys.stderr)
