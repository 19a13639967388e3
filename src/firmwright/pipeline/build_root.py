"""Manages the build root, which contains doit's state and the build folders of the recipes."""

from __future__ import annotations

import os
import site
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from doit import get_var

from firmwright.created_folders import (
    ALL,
    list_foreign_entries,
    mark_folder,
    read_listed,
    read_owner,
    shorten,
)
from firmwright.errors import UserError
from firmwright.folders import PACKAGE

from .recipe_arguments import find_recipes

STATE_FILE = ".doit.db"
"""The file in the build root that contains doit's record of every task."""

STATE = (STATE_FILE, ".recipes", ".snapshots", ".libraries.log")
"""The prefixes of the names of firmwright's files in the build root."""


def find_build_root() -> Path:
    """Return the folder that contains doit's state: ``outdir=``, or ``build`` by default."""
    return Path(get_var("outdir", "build"))


def check_temporary_folder() -> None:
    folder = os.environ.get("TMPDIR")
    if folder and not (Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        message = "not a writable folder; set it to a writable folder, or unset it"
        raise UserError(f"TMPDIR={folder}: {message}")


def prepare_build_root() -> Path:
    """Create and mark the build root.

    Raises UserError if a build could damage the folder, or if TMPDIR, which compilers use, is not
    writable.
    """
    check_temporary_folder()
    root = find_build_root()
    if root.is_dir() and not os.access(root, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to the build folder {root}; choose another with outdir=")
    recipes = list_recipes()
    if reason := next(find_reasons(root, recipes), None):
        other = propose_folder(recipes)
        raise UserError(f"outdir={root}: {reason}; choose another folder, such as outdir={other}")
    try:
        mark_folder(root)
    except OSError as error:
        message = (
            f"cannot create the build folder {root}: {error.strerror}; choose another with outdir="
        )
        raise UserError(message) from None
    return root


def list_recipes() -> Sequence[Path]:
    """Return the recipes of the command line.

    The result is empty if there are errors, because later code reports them.
    """
    with suppress(UserError):
        return [layers.path for layers in find_recipes()]
    return ()


def find_reasons(root: Path, recipes: Sequence[Path]) -> Iterator[str]:
    if str(root).startswith("~"):
        yield f"starts with ~, which the shell did not replace; {find_home()} is your home folder"
    if root.is_symlink():
        yield "is a symbolic link"
    resolved = Path(os.path.realpath(root))
    if recipe := next((path for path in recipes if is_same(path.parent, resolved)), None):
        yield f"is the folder of {recipe}"
    if is_same(find_home(), resolved):
        yield "is your home folder"
    if resolved == resolved.parent:
        yield "is the root of the file system"
    if ".git" in resolved.parts:
        yield "is in a folder of git"
    if (resolved / ".git").exists():
        yield "is the top of a git repository"
    if (resolved / "__init__.py").exists() or any(
        map(resolved.is_relative_to, list_package_folders())
    ):
        yield "is in a Python package"
    results = ((p, read_listed(p)) for p in resolved.parents)
    if stage := next((p for p, listed in results if listed and ALL not in listed), None):
        yield f"is in a result of the build in {stage.parent}"
    yield from find_foreign(root)


def find_foreign(root: Path) -> Iterator[str]:
    """Yield the reason if a folder has files that no build wrote.

    The default folder may contain foreign files next to the folders of recipes. However, a foreign
    file must not have the name of one of firmwright's files.
    """
    names = list_foreign_entries(root)
    if get_var("outdir") is None:
        names = [name for name in names if name.startswith(STATE)]
    if names:
        yield f"has files that no build of this version wrote ({shorten(names)})"


def is_same(folder: str | Path, resolved: Path) -> bool:
    return os.path.realpath(folder) == str(resolved)


def find_home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 (Path.home raises an error without a home folder)


def list_package_folders() -> Iterator[str]:
    folders = (*site.getsitepackages(), site.getusersitepackages(), str(PACKAGE))
    return (os.path.realpath(folder) for folder in folders)


def propose_folder(recipes: Sequence[Path]) -> Path:
    name = recipes[0].stem if recipes else "firmwright"
    folders = (Path(above, name) for above in ("build", "builds", "firmwright-build"))
    free = (f for f in folders if not os.path.lexists(f) or read_owner(f) is not None)
    return next(free, Path("firmwright-builds"))
