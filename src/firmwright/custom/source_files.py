"""Lists the source files of a ``python: module:function`` of a recipe.

The search reads the sources and does not run them: an up-to-date build must not execute custom
code. Other files that the code reads have to be named under ``files``. Examples are data, and a
module whose name is composed at run time. :mod:`firmwright.models.relax.python_call` rejects a
function that reads an unnamed file in the recipe's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .installed_modules import find_installed, list_imports


def list_source_files(module: str, folder: Path) -> list[Path]:
    """Return the files of ``module`` and of all its imports except the standard library.

    The files in ``folder`` come first, sorted, then the files of installed modules. Imports inside
    functions count.
    """
    own, installed = trace_imports(module, folder)
    return [*own, *find_installed(installed).files]


def trace_imports(module: str, folder: Path) -> tuple[list[Path], set[str]]:
    """Return the files in ``folder`` that a module consists of, and the names of other imports.

    The names are names of top-level modules and packages.
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
    """Yield the files of the packages ``a`` and ``a.b``, then the file of ``a.b.c``, with names.

    The name of a package ends in a dot, because its relative imports are relative to itself.
    """
    parent = folder
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        name = ".".join(parts[:depth])
        package = parent / part / "__init__.py"
        plain = parent / f"{part}.py"
        if package.is_file():
            yield f"{name}.", package
        elif plain.is_file():
            yield name, plain
        parent = parent / part
