"""The files that a ``python: module:function`` of a recipe is made of.

They are found in the sources alone, without running them: a build with nothing to do must not
execute a user's code. Other files that it reads (data, a module whose name is composed at run time)
have to be named under ``files``; :mod:`firmwright.models.relax.python_call` rejects a function that
reads anything else in the recipe's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .imports import list_imports
from .installed_modules import find_installed


def list_source_files(module: str, folder: Path) -> list[Path]:
    """Return the files of ``module``, and of all that it imports but the standard library.

    Those in ``folder`` come first, sorted, then those of installed modules. Imports inside
    functions count.
    """
    own, installed = trace_imports(module, folder)
    return [*own, *find_installed(installed).files]


def trace_imports(module: str, folder: Path) -> tuple[list[Path], set[str]]:
    """Return the files in ``folder`` that a module is made of, and the other names it imports.

    The names are those of modules and packages at the top.
    """
    found: dict[Path, None] = {}
    others: set[str] = set()
    waiting = [module]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        files = list(files_of(name, folder))
        if not files:
            others.add(name.partition(".")[0])
        for owner, path in files:
            if path not in found:
                found[path] = None
                waiting += list_imports(path, owner)
    return sorted(found), others


def files_of(module: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the packages that importing ``a.b.c`` runs, then its own file, with their names.

    The name of a package ends in a point: what it imports relatively lies inside it.
    """
    place = folder
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        name = ".".join(parts[:depth])
        package = place / part / "__init__.py"
        plain = place / f"{part}.py"
        if package.is_file():
            yield f"{name}.", package
        elif plain.is_file():
            yield name, plain
        place = place / part
